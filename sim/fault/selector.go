package fault

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

var (
	verbs      = []string{"GET", "LIST", "WATCH", "CREATE", "UPDATE", "PATCH", "DELETE", "DELETECOLLECTION", "*"}
	eventTypes = []string{"ADDED", "MODIFIED", "DELETED", "*"}
)

// Selector selects API calls or events of a watch. Its fields are as written: "*" for any; empty where
// they say nothing.
type Selector struct {
	Verb        string // upper case: a verb of a call or a type of an event
	Resource    string // plural, with .GROUP or without; "" in the selector of an event, whose fault names the resource
	Name        string
	Subresource string
	Namespace   string
	N           int // occurrence from 1; 0 for none said
}

// ParseCall parses the selector of a call: "*", or VERB RESOURCE[/NAME[/SUBRESOURCE]] [-n NAMESPACE] [#N].
// Since a name without a resource makes no sense, */SUBRESOURCE is short for */*/SUBRESOURCE.
func ParseCall(text string) (Selector, error) {
	s, words, err := parseCommon(text)
	if err != nil {
		return Selector{}, err
	}
	if len(words) == 1 && words[0] == "*" {
		words = append(words, "*")
	}
	if len(words) != 2 {
		return Selector{}, fmt.Errorf("selector %q: want VERB RESOURCE[/NAME][/SUBRESOURCE], such as \"UPDATE widgets/w1/status\"", text)
	}
	if !slices.Contains(verbs, words[0]) {
		return Selector{}, fmt.Errorf("selector %q: %q is no verb; want one of %s", text, words[0], strings.Join(verbs, ", "))
	}
	s.Verb = words[0]
	parts := strings.Split(words[1], "/")
	if slices.Contains(parts, "") || len(parts) > 3 {
		return Selector{}, fmt.Errorf("selector %q: %q is not RESOURCE[/NAME][/SUBRESOURCE]", text, words[1])
	}
	if len(parts) == 2 && parts[0] == "*" && parts[1] != "*" {
		parts = []string{"*", "*", parts[1]}
	}
	s.Resource = parts[0]
	if len(parts) > 1 {
		s.Name = parts[1]
	}
	if len(parts) > 2 {
		s.Subresource = parts[2]
	}
	return s, nil
}

// ParseEvent parses the selector of a watch event: TYPE NAME [-n NAMESPACE] [#N].
func ParseEvent(text string) (Selector, error) {
	s, words, err := parseCommon(text)
	if err != nil {
		return Selector{}, err
	}
	if len(words) != 2 || strings.Contains(words[1], "/") {
		return Selector{}, fmt.Errorf("selector %q: want TYPE NAME, such as \"MODIFIED db-0 #2\"", text)
	}
	if !slices.Contains(eventTypes, words[0]) {
		return Selector{}, fmt.Errorf("selector %q: %q is no event type; want one of %s", text, words[0], strings.Join(eventTypes, ", "))
	}
	s.Verb, s.Name = words[0], words[1]
	return s, nil
}

// parseCommon takes -n NAMESPACE and #N off the end of a selector.
func parseCommon(text string) (s Selector, words []string, err error) {
	words = strings.Fields(text)
	if n := len(words); n > 0 && strings.HasPrefix(words[n-1], "#") {
		s.N, err = strconv.Atoi(words[n-1][1:])
		if err != nil || s.N < 1 || words[n-1] != "#"+strconv.Itoa(s.N) {
			return s, nil, fmt.Errorf("selector %q: %q is no occurrence; want #1, #2, …", text, words[n-1])
		}
		words = words[:n-1]
	}
	if n := len(words); n > 1 && words[n-2] == "-n" {
		s.Namespace, words = words[n-1], words[:n-2]
	}
	for _, w := range words {
		if strings.ContainsAny(w, "#\"'`{}[],") {
			return s, nil, fmt.Errorf("selector %q: %q holds a character that no resource, name or verb has", text, w)
		}
	}
	return s, words, nil
}

// String is the selector as it parses.
func (s Selector) String() string {
	var b strings.Builder
	b.WriteString(s.Verb)
	switch {
	case s.Resource == "": // an event
		b.WriteString(" " + s.Name)
	case s.Verb == "*" && s.Resource == "*" && s.Name == "" && s.Subresource == "":
	default:
		b.WriteString(" " + s.Resource)
		switch {
		case s.Resource == "*" && s.Name == "*" && s.Subresource != "":
			b.WriteString("/" + s.Subresource)
		case s.Name != "":
			b.WriteString("/" + s.Name)
			if s.Subresource != "" {
				b.WriteString("/" + s.Subresource)
			}
		}
	}
	if s.Namespace != "" {
		b.WriteString(" -n " + s.Namespace)
	}
	if s.N > 0 {
		fmt.Fprintf(&b, " #%d", s.N)
	}
	return b.String()
}

// Means says whether the selector means the call, occurrences aside.
func (s Selector) Means(c Call) bool { return s.matchCall(c) }

// matchCall says whether the selector means c, occurrences aside. A selector without a subresource means the
// object itself, unless it is for any call.
func (s Selector) matchCall(c Call) bool {
	if s.Verb != "*" && !strings.EqualFold(s.Verb, c.Verb) {
		return false
	}
	if !matchResource(s.Resource, c.Group, c.Resource) || !matchWord(s.Namespace, c.Namespace) || !matchWord(s.Name, c.Name) {
		return false
	}
	if s.Resource == "*" && s.Name == "" && s.Subresource == "" {
		return true
	}
	return s.Subresource == c.Subresource || s.Subresource == "*" && c.Subresource != ""
}

// matchEvent says whether the selector means e, occurrences and the resource aside.
func (s Selector) matchEvent(e Event) bool {
	return slices.Contains(eventTypes, e.Type) && (s.Verb == "*" || s.Verb == e.Type) && matchWord(s.Name, e.Name) && matchWord(s.Namespace, e.Namespace)
}

func matchWord(want, have string) bool { return want == "" || want == "*" || want == have }

// matchResource compares RESOURCE or RESOURCE.GROUP with a resource. No plural has a dot in it.
func matchResource(want, group, resource string) bool {
	if want == "*" {
		return true
	}
	name, inGroup, hasGroup := strings.Cut(want, ".")
	return name == resource && (!hasGroup || inGroup == group)
}

// matchClient compares a fault's client with the process that called or watches: "" and "*" are any process,
// "operator" is the operator whatever its process is called. Scripted outsiders have no process and are never
// meant: they follow the script.
func matchClient(want, have, operator string) bool {
	if have == "" {
		return false
	}
	return want == "" || want == "*" || want == have || want == "operator" && have == operator
}

// counter counts the occurrences of a selector.
type counter struct {
	sel  Selector
	seen int
	// numbers remembers the numbers of events by resourceVersion, up to the one that is asked for.
	numbers map[int64]int
}

// call counts a matching call and says whether it is the one that is asked for. Without a number in the
// selector each is.
func (c *counter) call(call Call) bool {
	if !c.sel.matchCall(call) {
		return false
	}
	c.seen++
	return c.sel.N == 0 || c.seen == c.sel.N
}

// event counts a matching event, each resourceVersion once, and says whether it is the one that is asked for;
// without a number the first one is.
func (c *counter) event(e Event) bool {
	if !c.sel.matchEvent(e) {
		return false
	}
	want := max(c.sel.N, 1)
	n, known := c.numbers[e.ResourceVersion]
	if !known {
		if c.seen++; c.seen > want {
			return false
		}
		n = c.seen
		if c.numbers == nil {
			c.numbers = map[int64]int{}
		}
		c.numbers[e.ResourceVersion] = n
	}
	return n == want
}
