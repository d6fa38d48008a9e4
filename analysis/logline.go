package analysis

import (
	"regexp"
	"strings"

	"github.com/opreplay/opreplay/analysis/internal/jsontext"
	"github.com/opreplay/opreplay/traces"
)

// said is what a structured log line says of the pass that wrote it, as controller-runtime's loggers put it there:
// controller, controllerGroup, controllerKind, namespace, name, reconcileID, and error (err in klog's lines).
type said struct {
	controller, group, kind, namespace, name, pass, err string
	panicked, stack                                     string
}

func readLog(l *traces.Log) (s said) {
	if l.Fields == "" {
		return s
	}
	jsontext.Members(l.Fields, func(key, value string) bool {
		switch key {
		case "controller":
			s.controller = plain(value)
		case "controllerGroup":
			s.group = plain(value)
		case "controllerKind":
			s.kind = plain(value)
		case "namespace":
			s.namespace = plain(value)
		case "name":
			s.name = plain(value)
		case "reconcileID":
			s.pass = plain(value)
		case "error", "err":
			s.err = plain(value)
		case "panic":
			s.panicked = plain(value)
		case "stacktrace":
			s.stack = value
		}
		return true
	})
	return s
}

// plain is the text of a JSON string, with the two escapes that messages have; of another value, its JSON.
func plain(v string) string {
	t := jsontext.Text(v)
	if strings.Contains(t, `\`) {
		t = strings.ReplaceAll(strings.ReplaceAll(t, `\"`, `"`), `\n`, "\n")
	}
	return t
}

// key is the reconciled object in words: controller and name.
func (s *said) key() string {
	name := s.name
	if s.namespace != "" {
		name = s.namespace + "/" + name
	}
	return strings.TrimSpace(s.controller + " " + name)
}

// object is the reconciled object as the model knows it, else what the line says of it.
func (s *said) object(m *Model) (Object, bool) {
	if s.name == "" {
		return Object{}, false
	}
	for _, r := range m.Manifest.Resources {
		if r.Group != s.group || r.Kind != s.kind {
			continue
		}
		if state := m.Object(Key{r.Group, r.Resource, s.namespace, s.name}); state != nil {
			return state.Object, true
		}
		return Object{Group: r.Group, Version: r.Version, Resource: r.Resource, Namespace: strings.Clone(s.namespace), Name: strings.Clone(s.name)}, true
	}
	resource := strings.ToLower(s.kind) // the trace has no list of resources; the kind's plural is a guess
	if resource == "" {
		resource = s.controller
	}
	for _, plural := range []string{resource + "s", resource + "es", strings.TrimSuffix(resource, "y") + "ies"} {
		if state := m.Object(Key{s.group, plural, s.namespace, s.name}); state != nil {
			return state.Object, true
		}
	}
	if s.group == "" && s.kind == "" { // a recorded reconcile has the controller's name only
		var found *State
		for state := range m.Named(s.namespace, s.name) {
			if strings.HasPrefix(state.Resource, resource) && (found == nil || state.compare(found.Object) < 0) {
				found = state
			}
		}
		if found != nil {
			return found.Object, true
		}
	}
	return Object{Group: strings.Clone(s.group), Resource: strings.Clone(resource), Namespace: strings.Clone(s.namespace), Name: strings.Clone(s.name)}, true
}

var changing = regexp.MustCompile(`0x[0-9a-f]+|[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}|\d+`)

// steady is the part of a message that is the same each time: numbers, addresses and uids are left out.
func steady(message string) string { return changing.ReplaceAllString(message, "#") }

// brief is a message for a sentence: one line, not too long, without its final stop.
func brief(message string) string {
	message, _, _ = strings.Cut(strings.TrimSpace(message), "\n")
	const most = 160
	if r := []rune(message); len(r) > most {
		message = string(r[:most-1]) + "…"
	}
	return strings.TrimRight(message, ". ")
}
