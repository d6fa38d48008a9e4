package apicall

import (
	"bytes"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/opreplay/opreplay/traces"
)

// Meta is what a row says of an object.
type Meta struct {
	APIVersion, Kind     string
	Namespace, Name, UID string
	ResourceVersion      string
	Generation           int64
	// Continue is a list's token for its next page.
	Continue string
	// InitialEventsEnd marks the bookmark that ends the initial events of a streaming list.
	InitialEventsEnd bool
	// Writer is the field manager that last changed the object, "" where managedFields don't say.
	Writer string

	// Of a metav1.Status: its code and reason, and the UID of the object that it is about.
	Code      int32
	Reason    string
	StatusUID string
}

// ParseMeta reads an object's or a Status's identity.
func ParseMeta(object []byte) (Meta, error) {
	var m Meta
	end, err := members(object, 0, func(key string, v span) error {
		switch key {
		case "apiVersion":
			m.APIVersion = text(object, v)
		case "kind":
			m.Kind = text(object, v)
		case "metadata":
			return m.metadata(object, v)
		case "reason":
			m.Reason = text(object, v)
		case "code":
			code, _ := strconv.ParseInt(string(v.of(object)), 10, 32)
			m.Code = int32(code)
		case "details":
			if isObject(object, v) {
				_, err := members(object, v.start, func(key string, v span) error {
					if key == "uid" {
						m.StatusUID = text(object, v)
					}
					return nil
				})
				return err
			}
		}
		return nil
	})
	if err == nil && skipSpace(object, end) != len(object) {
		err = errSyntax
	}
	return m, err
}

func (m *Meta) metadata(b []byte, v span) error {
	if !isObject(b, v) {
		return nil
	}
	_, err := members(b, v.start, func(key string, v span) error {
		switch key {
		case "namespace":
			m.Namespace = text(b, v)
		case "name":
			m.Name = text(b, v)
		case "uid":
			m.UID = text(b, v)
		case "resourceVersion":
			m.ResourceVersion = text(b, v)
		case "generation":
			m.Generation, _ = strconv.ParseInt(string(v.of(b)), 10, 64)
		case "continue":
			m.Continue = text(b, v)
		case "annotations":
			m.InitialEventsEnd = bytes.Contains(v.of(b), initialEventsEnd)
		case "managedFields":
			if isArray(b, v) {
				return m.managers(b, v)
			}
		}
		return nil
	})
	return err
}

// initialEventsEnd is the annotation metav1.InitialEventsAnnotationKey, as the API server writes it into a
// bookmark that has no other.
var initialEventsEnd = []byte(`"k8s.io/initial-events-end":"true"`)

// managers finds the last writer: the API server sets the time of a manager's entry when that manager
// changes a field or its value (structured-merge-diff, "time" of ManagedFieldsEntry). The times have a
// grain of one second, so two managers of the same second leave it open.
func (m *Meta) managers(b []byte, v span) error {
	latest := ""
	_, err := elements(b, v.start, func(v span) error {
		if !isObject(b, v) {
			return nil
		}
		var manager, at string
		_, err := members(b, v.start, func(key string, v span) error {
			switch key {
			case "manager":
				manager = text(b, v)
			case "time":
				at = text(b, v)
			}
			return nil
		})
		switch {
		case at > latest: // RFC 3339 in UTC, so text order is time order
			latest, m.Writer = at, manager
		case at == latest && manager != m.Writer:
			m.Writer = ""
		}
		return err
	})
	return err
}

// number is a resource version as a number, 0 where it is none.
func number(resourceVersion string) int64 {
	n, err := strconv.ParseInt(resourceVersion, 10, 64)
	if err != nil || n < 0 {
		return 0
	}
	return n
}

// Event makes the watch row of an object that a watch or a list delivered: identity, hash and, where
// managedFields tell, the writer. OBJECT is JSON text; it may be empty for an event without one.
// Stream, Process and times are left to the caller.
func Event(gvr schema.GroupVersionResource, t traces.EventType, object []byte) (*traces.WatchEvent, error) {
	if len(object) == 0 {
		return (&Meta{}).Event(gvr, t, ""), nil
	}
	m, err := ParseMeta(object)
	if err != nil {
		return nil, fmt.Errorf("object of %s: %w", gvr.GroupResource(), err)
	}
	return m.Event(gvr, t, string(object)), nil
}

// Event is the function Event for an object whose identity is already known.
func (m *Meta) Event(gvr schema.GroupVersionResource, t traces.EventType, object string) *traces.WatchEvent {
	e := &traces.WatchEvent{Type: string(t), Object: object}
	e.Group, e.Version, e.Resource = gvr.Group, gvr.Version, gvr.Resource
	if object != "" {
		e.ObjectHash = traces.HashObject(object)
	}
	m.identify(&e.Identity)
	if t != traces.Deleted && t != traces.Bookmark && t != traces.Error {
		// A delete's last state was written by somebody else than who deleted it.
		e.Writer = m.Writer
	}
	return e
}

// identify fills what the object itself says of its identity.
func (m *Meta) identify(id *traces.Identity) {
	if m.Kind == "Status" {
		id.UID = m.StatusUID
		return
	}
	if m.Name != "" {
		id.Namespace, id.Name = m.Namespace, m.Name
	}
	id.UID = m.UID
	id.ResourceVersion = number(m.ResourceVersion)
	id.Generation = m.Generation
}

// List is a list answer taken apart.
type List struct {
	Meta
	Envelope []byte // the list without its items
	// Items are the objects, each with kind and apiVersion; they may share memory with the answer.
	Items [][]byte
}

// ParseList takes a list, or a Table, apart.
func ParseList(body []byte) (*List, error) {
	l, ok, err := parseList(body)
	if err == nil && !ok {
		err = errors.New("no list")
	}
	return &l, err
}

// parseList: ok is false when the answer is no list.
func parseList(body []byte) (l List, ok bool, err error) {
	var kept, items []span // members of the envelope, from the key's quote on
	last := skipSpace(body, 0) + 1
	_, err = members(body, 0, func(key string, v span) error {
		from := skipSpace(body, last)
		for from < v.start && body[from] == ',' {
			from = skipSpace(body, from+1)
		}
		last = v.end
		switch key {
		case "kind":
			l.Kind = text(body, v)
		case "apiVersion":
			l.APIVersion = text(body, v)
		case "metadata":
			if err := l.metadata(body, v); err != nil {
				return err
			}
		case "items", "rows":
			ok = true
			if !isArray(body, v) {
				return nil // null: an empty list
			}
			_, err := elements(body, v.start, func(v span) error {
				items = append(items, v)
				return nil
			})
			return err
		case "columnDefinitions":
			return nil
		}
		kept = append(kept, span{from, v.end})
		return nil
	})
	if err != nil || !ok {
		return List{}, ok, err
	}
	l.Envelope = append(l.Envelope, '{')
	for i, s := range kept {
		if i > 0 {
			l.Envelope = append(l.Envelope, ',')
		}
		l.Envelope = append(l.Envelope, s.of(body)...)
	}
	l.Envelope = append(l.Envelope, '}')
	itemKind := strings.TrimSuffix(l.Kind, "List")
	for _, s := range items {
		item := s.of(body)
		if l.Kind == "Table" {
			if item, err = rowObject(item); err != nil {
				return List{}, true, err
			}
			if item == nil {
				continue
			}
		}
		l.Items = append(l.Items, withType(item, itemKind, l.APIVersion))
	}
	return l, true, nil
}

// rowObject is the object of a Table's row: PartialObjectMetadata unless the client asked otherwise,
// nil when it asked for none.
func rowObject(row []byte) ([]byte, error) {
	var object []byte
	_, err := members(row, 0, func(key string, v span) error {
		if key == "object" && isObject(row, v) {
			object = v.of(row)
		}
		return nil
	})
	return object, err
}

// withType puts kind and apiVersion in front of an item that came without, as the API server writes
// them: TypeMeta is the first field of every built-in type.
func withType(item []byte, kind, apiVersion string) []byte {
	start := skipSpace(item, 0)
	if kind == "" || kind == "Table" || start >= len(item) || item[start] != '{' {
		return item
	}
	has := false
	_, _ = members(item, start, func(key string, v span) error {
		if key == "kind" && text(item, v) != "" {
			has = true
			return errStop
		}
		return nil
	})
	if has {
		return item
	}
	prefix := `{"kind":` + strconv.Quote(kind) + `,"apiVersion":` + strconv.Quote(apiVersion)
	rest := item[start+1:]
	if i := skipSpace(rest, 0); i < len(rest) && rest[i] != '}' {
		prefix += ","
	}
	out := make([]byte, 0, len(prefix)+len(rest))
	return append(append(out, prefix...), rest...)
}
