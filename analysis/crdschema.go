package analysis

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"k8s.io/kube-openapi/pkg/validation/strfmt"
)

// crdVersions are the versions of a custom resource, as its CustomResourceDefinition has them.
type crdVersions struct {
	Spec struct {
		Group string `json:"group"`
		Names struct {
			Plural string `json:"plural"`
			Kind   string `json:"kind"`
		} `json:"names"`
		Versions []crdVersion `json:"versions"`
	} `json:"spec"`
}

type crdVersion struct {
	Name    string `json:"name"`
	Served  bool   `json:"served"`
	Storage bool   `json:"storage"`
	Schema  struct {
		OpenAPI *crdSchema `json:"openAPIV3Schema"`
	} `json:"schema"`
}

// crdSchema is what of a structural schema can be checked without a compiler: CEL rules and formats that are not known
// here are left out, so that what it refuses an API server refuses too, and not the other way: what must not be admitted
// (not, oneOf) is judged only where nothing was left out. CEL's compiler comes with packages of the API server, its
// authorizer and feature gates, which would be in everything that reads a trace.
type crdSchema struct {
	Type          string                `json:"type"`
	Properties    map[string]*crdSchema `json:"properties"`
	Additional    json.RawMessage       `json:"additionalProperties"`
	Items         *crdSchema            `json:"items"`
	Required      []string              `json:"required"`
	Enum          []json.RawMessage     `json:"enum"`
	Minimum       *float64              `json:"minimum"`
	Maximum       *float64              `json:"maximum"`
	MinLength     *int                  `json:"minLength"`
	MaxLength     *int                  `json:"maxLength"`
	MinItems      *int                  `json:"minItems"`
	MaxItems      *int                  `json:"maxItems"`
	MinProperties *int                  `json:"minProperties"`
	MaxProperties *int                  `json:"maxProperties"`
	Unique        bool                  `json:"uniqueItems"`
	MultipleOf    *float64              `json:"multipleOf"`
	ExclusiveMin  bool                  `json:"exclusiveMinimum"`
	ExclusiveMax  bool                  `json:"exclusiveMaximum"`
	Pattern       string                `json:"pattern"`
	Format        string                `json:"format"`
	AllOf         []*crdSchema          `json:"allOf"`
	AnyOf         []*crdSchema          `json:"anyOf"`
	OneOf         []*crdSchema          `json:"oneOf"`
	Not           *crdSchema            `json:"not"`
	Nullable      bool                  `json:"nullable"`
	Default       json.RawMessage       `json:"default"`
	IntOrString   bool                  `json:"x-kubernetes-int-or-string"`
	EmbeddedThing bool                  `json:"x-kubernetes-embedded-resource"`

	pattern *regexp.Regexp // of Pattern, once it was needed
}

// readCRD is the definition that a text holds; ok is false for one that cannot be read.
func readCRD(body string) (crd crdVersions, ok bool) {
	err := json.Unmarshal([]byte(body), &crd)
	return crd, err == nil && crd.Spec.Names.Plural != ""
}

func (c *crdVersions) version(name string) *crdVersion {
	i := slices.IndexFunc(c.Spec.Versions, func(v crdVersion) bool { return v.Name == name })
	if i < 0 {
		return nil
	}
	return &c.Spec.Versions[i]
}

// violation is a value that a schema does not admit.
type violation struct{ path, pattern, rule string }

// maxViolations bounds those of one object.
const maxViolations = 4

// verdict is what a schema says of a value.
type verdict struct {
	violations []violation
	unsure     bool // something could not be checked, which may be a violation too
}

func (v *verdict) add(path, pattern, rule string) {
	if len(v.violations) < maxViolations {
		v.violations = append(v.violations, violation{path, pattern, rule})
	}
}

// check is what of an object a schema does not admit.
func (s *crdSchema) check(body string) []violation {
	decoder := json.NewDecoder(bytes.NewReader([]byte(body)))
	decoder.UseNumber()
	var object map[string]any
	if decoder.Decode(&object) != nil {
		return nil
	}
	var out verdict
	for _, name := range sortedKeys(s.Properties) {
		if v, there := object[name]; there && name != "metadata" && name != "kind" && name != "apiVersion" {
			s.Properties[name].value(v, name, name, &out)
		}
	}
	for _, name := range s.Required {
		if _, there := object[name]; !there {
			out.add(name, name, "is required")
		}
	}
	return out.violations
}

func (s *crdSchema) value(v any, path, pattern string, out *verdict) {
	add := func(format string, args ...any) {
		out.add(path, pattern, fmt.Sprintf(format, args...))
	}
	if s == nil {
		return
	}
	if s.IntOrString || s.EmbeddedThing || v == nil {
		out.unsure = true
		return // a null is dropped or defaulted before it is looked at
	}
	if len(s.Enum) > 0 && !slices.ContainsFunc(s.Enum, func(e json.RawMessage) bool { return equalJSON(e, v) }) {
		add("must be one of %s", enumText(s.Enum))
		return
	}
	out.unsure = out.unsure || len(s.Enum) > 0 && !scalar(v) || !s.known()
	switch x := v.(type) {
	case map[string]any:
		if s.Type != "" && s.Type != "object" {
			add("must be of type %s", s.Type)
			return
		}
		s.object(x, path, pattern, out)
	case []any:
		if s.Type != "" && s.Type != "array" {
			add("must be of type %s", s.Type)
			return
		}
		if s.MinItems != nil && len(x) < *s.MinItems || s.MaxItems != nil && len(x) > *s.MaxItems {
			add("has %d elements, which are too few or too many", len(x))
		}
		if s.Unique && repeats(x) {
			add("has an element twice")
		}
		for i, e := range x {
			s.Items.value(e, fmt.Sprintf("%s[%d]", path, i), pattern+"[*]", out)
		}
	case string:
		if s.Type != "" && s.Type != "string" {
			add("must be of type %s", s.Type)
			return
		}
		n := len([]rune(x))
		if s.MinLength != nil && n < *s.MinLength || s.MaxLength != nil && n > *s.MaxLength {
			add("has %d characters, which are too few or too many", n)
		}
		if !s.matches(x) {
			add("must match %s", s.Pattern)
		}
		if !s.formed(x) {
			add("must be of the format %s", s.Format)
		}
	case bool:
		if s.Type != "" && s.Type != "boolean" {
			add("must be of type %s", s.Type)
		}
	case json.Number:
		s.number(x, add)
	}
	s.combined(v, path, pattern, out)
}

// combined is what the combinators do not admit: allOf says what, the others only that it is so.
func (s *crdSchema) combined(v any, path, pattern string, out *verdict) {
	for _, one := range s.AllOf {
		one.value(v, path, pattern, out)
	}
	if yes, perhaps := admitting(s.AnyOf, v); len(s.AnyOf) > 0 && yes == 0 {
		if out.unsure = out.unsure || perhaps > 0; perhaps == 0 {
			out.add(path, pattern, "must be one of several forms (anyOf), and is none")
		}
	}
	if yes, perhaps := admitting(s.OneOf, v); len(s.OneOf) > 0 {
		switch {
		case yes > 1 || yes+perhaps == 0:
			out.add(path, pattern, fmt.Sprintf("must be exactly one of several forms (oneOf), and is %d", yes))
		case perhaps > 0:
			out.unsure = true
		}
	}
	if s.Not != nil {
		yes, known := s.Not.admits(v)
		out.unsure = out.unsure || !known
		if yes && known {
			out.add(path, pattern, "must not be of a form (not), and is")
		}
	}
}

// admitting is how many of the schemas admit a value, and how many more may.
func admitting(list []*crdSchema, v any) (yes, perhaps int) {
	for _, one := range list {
		switch admits, known := one.admits(v); {
		case !known:
			perhaps++
		case admits:
			yes++
		}
	}
	return yes, perhaps
}

// admits is whether the schema admits a value; known is false where something that was not checked may forbid it.
func (s *crdSchema) admits(v any) (yes, known bool) {
	var out verdict
	s.value(v, "", "", &out)
	yes = len(out.violations) == 0
	return yes, !yes || !out.unsure
}

// known is whether all that the schema itself says of texts and numbers can be checked.
func (s *crdSchema) known() bool {
	return (s.Format == "" || slices.Contains(formats, s.Format)) && (s.Pattern == "" || s.regexp() != nil)
}

func scalar(v any) bool {
	switch v.(type) {
	case map[string]any, []any:
		return false
	}
	return true
}

// formats are those that an API server holds texts against (apiextensions-apiserver, pkg/apiserver/validation/formats.go),
// as far as a text that they refuse is plainly none.
var formats = []string{"date", "date-time", "datetime", "duration", "uuid", "ipv4", "ipv6", "cidr", "mac", "email", "hostname", "uri", "byte"}

// formed is whether a text is of the schema's format; true for a format that is not known.
func (s *crdSchema) formed(text string) bool {
	return !slices.Contains(formats, s.Format) || strfmt.Default.Validates(s.Format, text)
}

// repeats is whether a list has a value twice.
func repeats(list []any) bool {
	seen := map[string]bool{}
	for _, v := range list {
		text, err := json.Marshal(v) // keys in order
		if err == nil && seen[string(text)] {
			return true
		}
		seen[string(text)] = true
	}
	return false
}

// matches is whether a text follows the schema's pattern; true for a pattern that is none.
func (s *crdSchema) matches(text string) bool {
	if s.Pattern == "" {
		return true
	}
	re := s.regexp()
	return re == nil || re.MatchString(text)
}

// regexp is the schema's pattern, nil for one that is none.
func (s *crdSchema) regexp() *regexp.Regexp {
	if s.pattern == nil {
		s.pattern, _ = regexp.Compile(s.Pattern)
	}
	return s.pattern
}

func (s *crdSchema) number(x json.Number, add func(string, ...any)) {
	if s.Type != "" && s.Type != "number" && s.Type != "integer" || s.Type == "integer" && strings.ContainsAny(x.String(), ".eE") {
		add("must be of type %s", s.Type)
		return
	}
	f, err := x.Float64()
	low := s.Minimum != nil && (f < *s.Minimum || s.ExclusiveMin && f == *s.Minimum)
	high := s.Maximum != nil && (f > *s.Maximum || s.ExclusiveMax && f == *s.Maximum)
	if err == nil && (low || high) {
		add("is %s, out of bounds", x)
	}
	if err == nil && s.MultipleOf != nil && *s.MultipleOf > 0 && !whole(f / *s.MultipleOf) {
		add("must be a multiple of %v", *s.MultipleOf)
	}
}

// whole is whether a number is an integer, as far as a division of floating point numbers tells.
func whole(f float64) bool { return math.Abs(f-math.Round(f)) <= 1e-9*max(1, math.Abs(f)) }

func (s *crdSchema) object(x map[string]any, path, pattern string, out *verdict) {
	for _, name := range s.Required {
		if _, there := x[name]; !there {
			out.add(path+"."+name, pattern+"."+name, "is required")
		}
	}
	if n := len(x); s.MinProperties != nil && n < *s.MinProperties || s.MaxProperties != nil && n > *s.MaxProperties {
		out.add(path, pattern, fmt.Sprintf("has %d fields, which are too few or too many", n))
	}
	var rest crdSchema
	others := len(s.Additional) > 0 && json.Unmarshal(s.Additional, &rest) == nil
	for _, name := range sortedKeys(x) {
		if p := s.Properties[name]; p != nil {
			p.value(x[name], path+"."+name, pattern+"."+name, out)
		} else if others {
			rest.value(x[name], path+"."+name, pattern+".*", out)
		}
	}
}

// equalJSON is whether a scalar is the value that a schema has as JSON; true for what is no scalar.
func equalJSON(raw json.RawMessage, v any) bool {
	switch x := v.(type) {
	case string:
		var text string
		return json.Unmarshal(raw, &text) == nil && text == x
	case json.Number:
		a, err := x.Float64()
		b, not := strconv.ParseFloat(strings.TrimSpace(string(raw)), 64)
		return err == nil && not == nil && a == b || strings.TrimSpace(string(raw)) == x.String()
	case bool:
		return strings.TrimSpace(string(raw)) == strconv.FormatBool(x)
	}
	return true
}

func enumText(enum []json.RawMessage) string {
	var words []string
	for _, e := range enum {
		words = append(words, string(e))
	}
	return brief(strings.Join(words, ", "))
}

// defaults are the default values of a schema by path, those of properties only: what is in a list or under a free key
// has no path of its own.
func (s *crdSchema) defaults(prefix string, out map[string]string) {
	if s == nil {
		return
	}
	for name, p := range s.Properties {
		path := name
		if prefix != "" {
			path = prefix + "." + name
		}
		if len(p.Default) > 0 {
			out[path] = string(p.Default)
		}
		p.defaults(path, out)
	}
}

// property is the schema at a path of property names, nil for none.
func (s *crdSchema) property(path string) *crdSchema {
	for name := range strings.SplitSeq(path, ".") {
		if s == nil {
			return nil
		}
		s = s.Properties[name]
	}
	return s
}
