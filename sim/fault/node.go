package fault

import (
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"
)

var yamlLine = regexp.MustCompile(`^yaml: (?:line (\d+): )?`)

// parseYAML is the text's one document, nil when it is empty.
func parseYAML(file string, text []byte) (*yaml.Node, error) {
	var doc, second yaml.Node
	d := yaml.NewDecoder(strings.NewReader(string(text)))
	err := d.Decode(&doc)
	if errors.Is(err, io.EOF) {
		return nil, nil
	}
	if err != nil {
		m := yamlLine.FindStringSubmatch(err.Error())
		line := 1
		if m != nil && m[1] != "" {
			line, _ = strconv.Atoi(m[1])
		}
		return nil, &Error{file, line, "not YAML: " + yamlLine.ReplaceAllString(err.Error(), "")}
	}
	if d.Decode(&second) == nil {
		return nil, &Error{file, second.Line, "a second document; a plan is one"}
	}
	if len(doc.Content) != 1 || doc.Content[0].Tag == "!!null" {
		return nil, nil
	}
	return doc.Content[0], nil
}

// fields are the members of a mapping, taken one after the other; what is left at the end is a mistake.
type fields struct {
	file string
	what string
	line int
	keys []*yaml.Node
	vals []*yaml.Node
	used map[string]bool
}

// mapping reads n as a mapping with plain keys. If KEYS are given no others may be there.
func mapping(file string, n *yaml.Node, what string, keys ...string) (*fields, error) {
	if n.Kind != yaml.MappingNode {
		return nil, &Error{file, n.Line, what + " is written as \"name: value\" pairs"}
	}
	f := &fields{file: file, what: what, line: n.Line, used: map[string]bool{}}
	seen := map[string]bool{}
	for i := 0; i+1 < len(n.Content); i += 2 {
		k, v := n.Content[i], n.Content[i+1]
		if k.Kind != yaml.ScalarNode || v.Kind == yaml.AliasNode {
			return nil, f.errorAt(k, "anchors, aliases and keys that are no words are not supported")
		}
		if seen[k.Value] {
			return nil, f.errorAt(k, "%s has %q twice", what, k.Value)
		}
		seen[k.Value] = true
		if len(keys) > 0 && !slices.Contains(keys, k.Value) {
			return nil, f.errorAt(k, "%s has no %q; it has %s", what, k.Value, strings.Join(keys, ", "))
		}
		f.keys, f.vals = append(f.keys, k), append(f.vals, v)
	}
	return f, nil
}

func (f *fields) errorAt(n *yaml.Node, format string, args ...any) error {
	line := f.line
	if n != nil {
		line = n.Line
	}
	return &Error{f.file, line, fmt.Sprintf(format, args...)}
}

// take is the value of KEY, nil when it is not there.
func (f *fields) take(key string) *yaml.Node {
	f.used[key] = true
	for i, k := range f.keys {
		if k.Value == key {
			return f.vals[i]
		}
	}
	return nil
}

// rest is an error when a member was never taken.
func (f *fields) rest() error {
	for _, k := range f.keys {
		if !f.used[k.Value] {
			var names []string
			for name := range f.used {
				names = append(names, name)
			}
			slices.Sort(names)
			return f.errorAt(k, "%s has no %q; it has %s", f.what, k.Value, strings.Join(names, ", "))
		}
	}
	return nil
}

// text reads a word into INTO.
func (f *fields) text(key string, into *string) error {
	n := f.take(key)
	if n == nil {
		return nil
	}
	if n.Kind != yaml.ScalarNode || n.Value == "" || strings.ContainsAny(n.Value, "\n\r") {
		return f.errorAt(n, "%s of %s is no text", key, f.what)
	}
	*into = n.Value
	return nil
}

// word reads a text that names a resource or a client.
func (f *fields) word(key string, into *string) error {
	if err := f.text(key, into); err != nil {
		return err
	}
	if strings.ContainsAny(*into, " \t\"'#{}[],/") {
		return f.errorAt(f.take(key), "%s of %s is %q; want one name", key, f.what, *into)
	}
	return nil
}

func (f *fields) selector(key string, parse func(string) (Selector, error), into *Selector) error {
	var s string
	if err := f.text(key, &s); err != nil || s == "" {
		return err
	}
	sel, err := parse(s)
	if err != nil {
		return f.errorAt(f.take(key), "%s of %s: %s", key, f.what, err)
	}
	*into = sel
	return nil
}

func (f *fields) uint(key string, into *uint64) error {
	n := f.take(key)
	if n == nil {
		return nil
	}
	v, err := strconv.ParseUint(n.Value, 10, 64)
	if n.Kind != yaml.ScalarNode || err != nil {
		return f.errorAt(n, "%s of %s is %q; want a whole number from 0", key, f.what, n.Value)
	}
	*into = v
	return nil
}

// number reads a whole number, which may be below 0.
func (f *fields) number(key string, into **int64) error {
	n := f.take(key)
	if n == nil {
		return nil
	}
	v, err := strconv.ParseInt(n.Value, 10, 64)
	if n.Kind != yaml.ScalarNode || err != nil {
		return f.errorAt(n, "%s of %s is %q; want a whole number", key, f.what, n.Value)
	}
	*into = &v
	return nil
}

// words reads a list of texts that is not empty.
func (f *fields) words(key string, into *[]string) error {
	n := f.take(key)
	if n == nil {
		return nil
	}
	if n.Kind != yaml.SequenceNode || len(n.Content) == 0 {
		return f.errorAt(n, "%s of %s is a list, such as [a, b]", key, f.what)
	}
	for _, item := range n.Content {
		if item.Kind != yaml.ScalarNode || item.Value == "" || strings.ContainsAny(item.Value, "\n\r") {
			return f.errorAt(item, "%s of %s is a list of texts", key, f.what)
		}
		*into = append(*into, item.Value)
	}
	return nil
}

func (f *fields) boolean(key string, into *bool) error {
	n := f.take(key)
	if n == nil {
		return nil
	}
	if n.Kind != yaml.ScalarNode || n.Value != "true" && n.Value != "false" {
		return f.errorAt(n, "%s of %s is %q; want true or false", key, f.what, n.Value)
	}
	*into = n.Value == "true"
	return nil
}

// maxDuration bounds every duration of a plan: longer is a slip of the pen.
const maxDuration = 7 * 24 * time.Hour

func (f *fields) duration(key string, n *yaml.Node, into *time.Duration) error {
	if n == nil {
		return nil
	}
	d, err := time.ParseDuration(n.Value)
	if n.Kind != yaml.ScalarNode || err != nil || d < 0 || d > maxDuration {
		return f.errorAt(n, "%s of %s is %q; want a duration such as 200ms or 2m, at most %s", key, f.what, n.Value, maxDuration)
	}
	*into = d
	return nil
}

// line builds a one-line form.
type line struct {
	kind  string
	parts []string
}

func (l *line) raw(key, value string) { l.parts = append(l.parts, key+": "+value) }

// text adds a text, quoted where YAML would read it as something else.
func (l *line) text(key, value string) {
	if value != "" {
		l.raw(key, quote(value))
	}
}

var plainText = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9.-]*$`)

func quote(s string) string {
	if plainText.MatchString(s) && !slices.Contains([]string{"y", "n", "yes", "no", "on", "off", "true", "false", "null"}, strings.ToLower(s)) {
		return s
	}
	return strconv.Quote(s)
}

// word is a name as it stands in a plan.
type word string

func (w word) String() string { return string(w) }

func (l *line) String() string { return l.kind + ": {" + strings.Join(l.parts, ", ") + "}" }
