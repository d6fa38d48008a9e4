package conformance

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"sort"
	"strconv"
	"strings"
	"time"
)

// normal gives what a server decides by chance or by its clock names that are the same on both servers.
// It does not leave those values out: a uid is the n-th uid that the sequence met, a resourceVersion its
// rank among all that objects had, a time is one of the run, or so and so long after it.
type normal struct {
	d *side
	// op is the operation that is being looked at.
	op *Op
	// revs are the resourceVersions of objects, sorted.
	revs []uint64
	uids map[string]string
	// owner is the uid of the object that is being looked at: whether another object gets an address that
	// was free again is chance.
	owner string
	given map[string]map[string]string // addresses and ports by owner
	times map[string]string
	names map[string]string // that were generated
	end   time.Time
}

func newNormal(s *Sequence, d *side) *normal {
	n := &normal{
		d: d, uids: map[string]string{}, given: map[string]map[string]string{},
		times: map[string]string{}, names: map[string]string{}, end: d.Now(),
	}
	seen := map[uint64]bool{}
	for i, op := range s.Ops {
		a := d.answers[i]
		if a == nil {
			continue
		}
		versions(a.Object, seen)
		n.generated(op, a)
		if w := d.streams[op.ID]; w != nil {
			for _, ev := range w.seen() {
				versions(ev, seen)
			}
		}
	}
	n.revs = slices.Sorted(maps.Keys(seen))
	return n
}

// versions collects the resourceVersions of objects. Those of lists and bookmarks are the server's as a
// whole, where other things go on too.
func versions(v any, into map[uint64]bool) {
	switch v := v.(type) {
	case map[string]any:
		if v["type"] == "BOOKMARK" {
			return
		}
		if m, ok := v["metadata"].(map[string]any); ok && !isList(v) {
			if rv, ok := m["resourceVersion"].(string); ok {
				if n, err := strconv.ParseUint(rv, 10, 64); err == nil && n > 0 {
					into[n] = true
				}
			}
		}
		for _, x := range v {
			versions(x, into)
		}
	case []any:
		for _, x := range v {
			versions(x, into)
		}
	}
}

func isList(v map[string]any) bool {
	_, items := v["items"]
	_, rows := v["rows"]
	return items || rows
}

// generated notes the name that a generateName led to, or would have led to.
func (n *normal) generated(op *Op, a *Answer) {
	var asked struct {
		Metadata struct{ GenerateName string }
	}
	if !strings.Contains(op.Body, "generateName") || json.Unmarshal([]byte(n.d.text(op.Body)), &asked) != nil {
		return
	}
	prefix := asked.Metadata.GenerateName
	if prefix == "" {
		return
	}
	answer := string(a.Body)
	if a.Object != nil {
		answer = text(a.Object) // in protobuf and CBOR a name may end in the middle of a word
	}
	// The characters are those of k8s.io/apimachinery/pkg/util/rand.
	for _, name := range regexp.MustCompile(regexp.QuoteMeta(prefix)+`[bcdfghjklmnpqrstvwxz2456789]{5}\b`).FindAllString(answer, -1) {
		n.names[name] = prefix + "<5>"
	}
}

// rank is the place of a resourceVersion among those of objects: of the greatest that is not above it.
func (n *normal) rank(rv string, exact bool) string {
	v, err := strconv.ParseUint(rv, 10, 64)
	if err != nil || v == 0 {
		return rv
	}
	i := sort.Search(len(n.revs), func(i int) bool { return n.revs[i] > v })
	if exact {
		return fmt.Sprintf("rv#%d", i)
	}
	return fmt.Sprintf("rv>=#%d", i)
}

func (n *normal) value(v any) any { return n.walk(v, "", false) }

func (n *normal) walk(v any, key string, list bool) any {
	switch v := v.(type) {
	case map[string]any:
		if uid := uidOf(v); uid != "" {
			defer func(was string) { n.owner = was }(n.owner)
			n.owner = uid
		}
		if _, ok := v["kty"]; ok && key == "keys" {
			return "<key>" // each server has its own that it signs tokens with (RFC 7517)
		}
		out := make(map[string]any, len(v))
		for _, k := range slices.Sorted(maps.Keys(v)) {
			if n.elsewhere(k) {
				continue
			}
			inList := list && key == "metadata"
			if k == "metadata" {
				inList = isList(v) || v["kind"] == "Status" || list
			}
			if k == "object" && v["type"] == "BOOKMARK" {
				inList = true
			}
			if k == "authentication.kubernetes.io/credential-id" {
				continue // it is of the certificate that one server knows the client by
			}
			w := n.walk(v[k], k, inList)
			if m, ok := w.(map[string]any); ok && k == "extra" && len(m) == 0 {
				continue
			}
			out[k] = w
		}
		return out
	case []any:
		out := make([]any, 0, len(v))
		for _, x := range v {
			if !n.elsewhere(groupOf(x)) {
				out = append(out, n.walk(x, key, false))
			}
		}
		switch key {
		case "managedFields", "resourceRules", "nonResourceRules", "causes":
			// Managers of one second are in no particular order, and what is one second is chance. The rules
			// that a user has, and the conflicts of an apply, are collected from maps.
			sort.Slice(out, func(i, j int) bool { return text(out[i]) < text(out[j]) })
		case "finalizers":
			if n.op != nil && n.op.Kind == "namespaces" {
				// The deletion of a namespace writes them as they come from a map, with the one that its propagation
				// policy asks for (k8s.io/kubernetes/pkg/registry/core/namespace/storage, Delete).
				sort.Slice(out, func(i, j int) bool { return text(out[i]) < text(out[j]) })
			}
		}
		return out
	case json.Number:
		if key == "nodePort" || key == "healthCheckNodePort" {
			return n.allocated(v.String(), "port")
		}
		return v
	case string:
		return n.text(v, key, list)
	}
	return v
}

// runForm is the namespace of a run.
var runForm = regexp.MustCompile(`\bs\d+-\d+-r\d+\b`)

// elsewhere tells whether a name in discovery or OpenAPI is of another sequence. Its CRD is gone, but the real
// server takes its time to forget it.
func (n *normal) elsewhere(name string) bool {
	ns := runForm.FindString(name)
	return ns != "" && ns != n.d.namespace && strings.Contains(name, "example")
}

// groupOf is the name of an API group in discovery.
func groupOf(v any) string {
	m, _ := v.(map[string]any)
	if meta, ok := m["metadata"].(map[string]any); ok {
		m = meta
	}
	name, _ := m["name"].(string)
	return name
}

// uidOf is the uid of an object, or of a Table's row.
func uidOf(v map[string]any) string {
	for _, in := range []any{v, v["object"]} {
		obj, _ := in.(map[string]any)
		m, _ := obj["metadata"].(map[string]any)
		if uid, ok := m["uid"].(string); ok {
			return uid
		}
	}
	return ""
}

// allocated names what an object was given: the n-th address that it had.
func (n *normal) allocated(value, what string) string {
	if n.given[n.owner] == nil {
		n.given[n.owner] = map[string]string{}
	}
	if n.owner == "" {
		return what
	}
	return first(n.given[n.owner], value, what)
}

func first(known map[string]string, value, what string) string {
	if _, ok := known[value]; !ok {
		known[value] = fmt.Sprintf("%s#%d", what, len(known)+1)
	}
	return known[value]
}

// credential is of the certificate that one server knows the client by, in a message.
const credential = `\{\\*"authentication\.kubernetes\.io/credential-id\\*":\[[^\]]*\]\}`

var (
	uuidForm = regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}`)
	timeForm = regexp.MustCompile(`\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z`)
	ipForm   = regexp.MustCompile(`\b10\.0\.0\.\d+\b`)
	// A node port among the ports of a Service's row in a Table.
	portForm = regexp.MustCompile(`:3[0-2]\d{3}/(TCP|UDP|SCTP)\b`)
	hostForm = regexp.MustCompile(`127\.0\.0\.1:\d+`)
	// The age of what the sequence has made, in a Table.
	youngForm = regexp.MustCompile(`^(\d+[sm])+$`)
	// Of OpenAPI documents, which are compared themselves.
	hashForm  = regexp.MustCompile(`hash=[0-9A-F]{32,}`)
	tokenForm = regexp.MustCompile(`\beyJ[\w-]+\.[\w-]+\.[\w-]+\b`)
	// Which of several errors an apply reports depends on the order of a map.
	typedError = regexp.MustCompile(`(?s)^(failed to create typed patch object \(.*?\):) .*`)
	// Where the history of a server begins is its own affair.
	tooOld = regexp.MustCompile(`(too old resource version: \d+) \(\d+\)`)
	// An object in a message has them in the order of the second.
	fieldsInMessage = regexp.MustCompile(`\\*"managedFields\\*":\[.*?\}\]`)
	// And how a server knows the client.
	clientInMessage = regexp.MustCompile(`,\\*"extra\\*":` + credential + `|\\*"extra\\*":` + credential + `,`)
	// Where messages have resourceVersions in them.
	inMessage = regexp.MustCompile(`(ResourceVersion in precondition: |the ResourceVersion in the precondition \(|ResourceVersion in object meta: |ResourceVersion in record \(|` +
		`, current: |resourceVersion\\*":\\*")(\d+)`)
)

func (n *normal) text(s, key string, list bool) string {
	switch key {
	case "resourceVersion":
		return n.rank(s, !list)
	case "continue":
		return n.token(s)
	case "cells":
		if youngForm.MatchString(s) {
			return "<age>" // the two are not asked in the same second
		}
	}
	s = n.plain(s)
	if key == "message" {
		s = inMessage.ReplaceAllStringFunc(s, func(m string) string {
			p := inMessage.FindStringSubmatch(m)
			return p[1] + n.rank(p[2], !strings.HasPrefix(p[1], ", current"))
		})
		s = fieldsInMessage.ReplaceAllString(s, "<managedFields>")
		s = clientInMessage.ReplaceAllString(s, "")
		s = sorted(s)
		s = typedError.ReplaceAllString(s, "$1 …")
		s = tooOld.ReplaceAllString(s, "$1 (…)")
	}
	return s
}

// plain puts right what may stand anywhere in a text.
func (n *normal) plain(s string) string {
	s = hashForm.ReplaceAllString(s, "hash=…")
	s = tokenForm.ReplaceAllString(s, "<token>")
	s = uuidForm.ReplaceAllStringFunc(s, func(u string) string { return first(n.uids, u, "uid") })
	s = timeForm.ReplaceAllStringFunc(s, n.time)
	s = ipForm.ReplaceAllStringFunc(s, func(ip string) string { return n.allocated(ip, "ip") })
	s = portForm.ReplaceAllStringFunc(s, func(p string) string {
		port, protocol, _ := strings.Cut(p[1:], "/")
		return ":" + n.allocated(port, "port") + "/" + protocol
	})
	s = hostForm.ReplaceAllString(s, "<host>")
	for name, as := range n.names {
		s = strings.ReplaceAll(s, name, as)
	}
	return s
}

// time names a time of the run, or one shortly after it. What a client made up is left alone.
func (n *normal) time(s string) string {
	if as, ok := n.times[s]; ok {
		return as
	}
	t, err := time.Parse(time.RFC3339, s)
	const slack = 5 * time.Second
	form := "now"
	if strings.Contains(s, ".") {
		form = "now, to the microsecond"
	}
	switch {
	case err != nil || t.Before(n.d.started.Add(-slack)) || t.After(n.end.Add(48*time.Hour)):
		form = s
	case t.After(n.end.Add(slack)):
		form = "in " + roughly(t.Sub(n.d.started))
	}
	n.times[s] = form
	return form
}

// roughly is a duration to about a quarter: sequences take some seconds.
func roughly(d time.Duration) string {
	for _, step := range []time.Duration{30 * time.Second, time.Minute, 5 * time.Minute, 10 * time.Minute, time.Hour, 2 * time.Hour, 24 * time.Hour} {
		if d < step+step/4+10*time.Second {
			return step.String()
		}
	}
	return "long"
}

// token makes a continue token readable. Whether the key in it begins with a slash is the server's own
// affair: the real one writes it so when it answers from its watch cache, and reads both.
func (n *normal) token(s string) string {
	raw, err := base64.RawURLEncoding.DecodeString(s)
	if err != nil {
		return s
	}
	var t struct {
		V     string `json:"v"`
		RV    int64  `json:"rv"`
		Start string `json:"start"`
	}
	if json.Unmarshal(raw, &t) != nil {
		return s
	}
	return fmt.Sprintf("%s %s %q", t.V, n.rank(fmt.Sprint(t.RV), false), strings.TrimPrefix(n.plain(t.Start), "/"))
}

// sorted puts the parts of a message with several errors into order: the servers collect some of them
// from maps.
func sorted(s string) string {
	i, j := strings.Index(s, "["), strings.LastIndex(s, "]")
	if i < 0 || j < i {
		return s
	}
	parts := strings.Split(s[i+1:j], ", ")
	sort.Strings(parts)
	return s[:i+1] + strings.Join(parts, ", ") + s[j:]
}
