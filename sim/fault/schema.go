package fault

import (
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// Schema has a CRD demand more of one field, at a moment: what was accepted before is refused from then on, by the
// API server's own validation, which lets values pass that a write does not change.
//
// On a real cluster: a new version of the operator, or of its chart, brings a CRD with another schema; the objects
// that are there are not asked.
type Schema struct {
	// CRD is its name, such as widgets.example.com.
	CRD string
	// Field is the path of the field in the object, such as spec.size.
	Field string
	// One of these is demanded of it.
	Minimum, Maximum *int64
	Pattern          string   // a regular expression for a text
	Enum             []string // the texts that are left
	Required         bool     // it must be there
	Removed          bool     // the schema does not have it any more: it is pruned from what is written and read
	// At is a time, or when a call has been executed.
	At Moment
}

// Kind implements Fault.
func (s *Schema) Kind() string { return "schema" }

// String implements Fault.
func (s *Schema) String() string {
	l := line{kind: s.Kind()}
	l.text("crd", s.CRD)
	l.text("field", s.Field)
	if s.Minimum != nil {
		l.raw("minimum", strconv.FormatInt(*s.Minimum, 10))
	}
	if s.Maximum != nil {
		l.raw("maximum", strconv.FormatInt(*s.Maximum, 10))
	}
	l.text("pattern", s.Pattern)
	if s.Enum != nil {
		words := make([]string, len(s.Enum))
		for i, w := range s.Enum {
			words[i] = quote(w)
		}
		l.raw("enum", "["+strings.Join(words, ", ")+"]")
	}
	if s.Required {
		l.raw("required", "true")
	}
	if s.Removed {
		l.raw("removed", "true")
	}
	s.At.print(&l, "at")
	return l.String()
}

var fieldPath = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_-]*(\.[A-Za-z_][A-Za-z0-9_-]*)*$`)

func parseSchema(f *fields) (Fault, error) {
	s := &Schema{}
	for _, err := range []error{
		f.word("crd", &s.CRD),
		f.text("field", &s.Field),
		f.number("minimum", &s.Minimum),
		f.number("maximum", &s.Maximum),
		f.text("pattern", &s.Pattern),
		f.words("enum", &s.Enum),
		f.boolean("required", &s.Required),
		f.boolean("removed", &s.Removed),
		f.moment("at", &s.At),
	} {
		if err != nil {
			return nil, err
		}
	}
	if _, err := regexp.Compile(s.Pattern); err != nil {
		return nil, f.errorAt(f.take("pattern"), "pattern of schema: %s", strings.ReplaceAll(err.Error(), "\n", " "))
	}
	demands := f.count("minimum", "maximum", "pattern", "enum")
	for _, set := range []bool{s.Required, s.Removed} {
		if set {
			demands++
		}
	}
	switch {
	case !strings.Contains(s.CRD, "."):
		return nil, f.errorAt(f.take("crd"), "schema needs crd, the CRD's name, such as widgets.example.com")
	case !fieldPath.MatchString(s.Field):
		return nil, f.errorAt(f.take("field"), "field of schema is %q; want a path such as spec.size", s.Field)
	case demands != 1:
		return nil, f.errorAt(nil, "schema demands one thing of its field: minimum, maximum, pattern, enum, required: true or removed: true")
	case f.take("at") == nil:
		return nil, f.errorAt(nil, "schema needs at: a time such as 10s, or the call after which the CRD is changed")
	}
	return s, nil
}

type schemaRule struct {
	base
	*Schema
	moment trigger
}

func (s *Schema) rule(b base) rule { return &schemaRule{base: b, Schema: s, moment: newTrigger(s.At)} }

func (r *schemaRule) begin(fx *Effect) {
	r.moment.begin(fx, r.deadline(0, 0, "the schema of "+r.CRD+" changes"))
}

func (r *schemaRule) arrive(c Call, v *Verdict) { r.moment.arrive(c, v.Ticket) }

func (r *schemaRule) dropped(t Ticket, _ *Effect) { r.moment.dropped(t) }

func (r *schemaRule) done(t Ticket, fx *Effect) {
	if r.moment.done(t) {
		r.expire(0, fx)
	}
}

func (r *schemaRule) expire(_ int, fx *Effect) {
	r.moment.expired()
	r.act(fx, Action{
		Do: DoAlter, Path: "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/" + r.CRD, Alter: r.alter,
	})
}

func (r *schemaRule) report() []Unmatched { return r.moment.unmatched(&r.base, "at") }

// alter changes the CRD's text. Each of its versions that has the field gets the demand.
func (s *Schema) alter(crd []byte) ([]byte, error) {
	doc, err := decode(crd)
	if err != nil {
		return nil, err
	}
	spec, _ := doc["spec"].(map[string]any)
	versions, _ := spec["versions"].([]any)
	found := false
	for _, v := range versions {
		version, _ := v.(map[string]any)
		schema, _ := version["schema"].(map[string]any)
		root, _ := schema["openAPIV3Schema"].(map[string]any)
		found = s.demand(root) || found
	}
	if !found {
		return nil, &Unfit{Fault: s.String(), Text: fmt.Sprintf("no version of the CRD %s has %s in its schema", s.CRD, s.Field)}
	}
	return json.Marshal(doc)
}

// demand changes one version's schema; false when it has no such field.
func (s *Schema) demand(at map[string]any) bool {
	path := strings.Split(s.Field, ".")
	for i, name := range path {
		properties, _ := at["properties"].(map[string]any)
		field, ok := properties[name].(map[string]any)
		if !ok {
			return false
		}
		if i < len(path)-1 {
			at = field
			continue
		}
		switch {
		case s.Minimum != nil:
			field["minimum"] = *s.Minimum
		case s.Maximum != nil:
			field["maximum"] = *s.Maximum
		case s.Pattern != "":
			field["pattern"] = s.Pattern
		case s.Enum != nil:
			field["enum"] = s.Enum
		case s.Removed:
			delete(properties, name)
		case s.Required:
			required, _ := at["required"].([]any)
			if !slices.Contains(required, any(name)) {
				at["required"] = append(required, name)
			}
		}
	}
	return true
}

// Unfit says that a fault cannot be applied to this run.
type Unfit struct{ Fault, Text string }

// Error names the fault and says why.
func (e *Unfit) Error() string { return fmt.Sprintf("plan: %s: %s", e.Fault, e.Text) }

// BadInput marks the error as the plan's fault.
func (e *Unfit) BadInput() bool { return true }
