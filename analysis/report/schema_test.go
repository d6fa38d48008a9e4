package report

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/xeipuuv/gojsonschema"

	"github.com/opreplay/opreplay/analysis"
	"github.com/opreplay/opreplay/analysis/causal"
	"github.com/opreplay/opreplay/traces"
	"github.com/opreplay/opreplay/traces/cases"
)

const schemaFile = "../../docs/findings/opreplay.schema.json"

// schema is the JSON schema (draft 7) of the three forms, from their Go types and what docs/findings/json.md says of
// each field.
type schema struct {
	about       map[string]string
	definitions map[string]any
}

// values that a text may have.
var enums = map[reflect.Type][]string{
	reflect.TypeFor[analysis.Severity]():  {"error", "warning"},
	reflect.TypeFor[analysis.Certainty](): {"sure", "likely", "possible"},
	reflect.TypeFor[causal.Kind]():        {"version", "event", "write", "reconcile", "unknown"},
}

func (s *schema) of(t reflect.Type) map[string]any {
	switch {
	case t == reflect.TypeFor[time.Time]():
		return map[string]any{"type": "string", "format": "date-time"}
	case enums[t] != nil:
		return map[string]any{"type": "string", "enum": enums[t]}
	}
	switch t.Kind() {
	case reflect.Pointer:
		return s.of(t.Elem())
	case reflect.Slice:
		return map[string]any{"type": "array", "items": s.of(t.Elem())}
	case reflect.Struct:
		s.define(t)
		return map[string]any{"$ref": "#/definitions/" + t.Name()}
	case reflect.String:
		return map[string]any{"type": "string"}
	case reflect.Bool:
		return map[string]any{"type": "boolean"}
	case reflect.Int64, reflect.Int:
		return map[string]any{"type": "integer"}
	case reflect.Float64:
		return map[string]any{"type": "number"}
	}
	panic("no schema for " + t.String())
}

func (s *schema) define(t reflect.Type) {
	if s.definitions[t.Name()] != nil {
		return
	}
	properties, required := map[string]any{}, []string{}
	s.definitions[t.Name()] = true // it may hold itself
	for i := range t.NumField() {
		if !t.Field(i).IsExported() {
			continue
		}
		name, options, _ := strings.Cut(t.Field(i).Tag.Get("json"), ",")
		p := s.of(t.Field(i).Type)
		if about := s.about[name]; about != "" && p["$ref"] == nil {
			p["description"] = about
		}
		properties[name] = p
		if !strings.Contains(options, "omit") {
			required = append(required, name)
		}
	}
	slices.Sort(required)
	s.definitions[t.Name()] = map[string]any{"type": "object", "properties": properties, "required": required}
}

// described is what the page's tables say of each field.
func described(page string) map[string]string {
	about := map[string]string{}
	for _, row := range regexp.MustCompile("(?m)^\\| (`.*`) \\| (.*) \\|$").FindAllStringSubmatch(page, -1) {
		for _, name := range regexp.MustCompile("`([^`]+)`").FindAllStringSubmatch(row[1], -1) {
			about[name[1]] = strings.ReplaceAll(row[2], "`", "")
		}
	}
	return about
}

func makeSchema(t *testing.T) []byte {
	t.Helper()
	page, err := os.ReadFile("../../docs/findings/json.md")
	if err != nil {
		t.Fatal(err)
	}
	s := &schema{about: described(string(page)), definitions: map[string]any{}}
	var forms []any
	for name, typ := range map[string]reflect.Type{
		analysis.Schema: reflect.TypeFor[analysis.Result](), analysis.ComparisonSchema: reflect.TypeFor[analysis.Comparison](), causal.Schema: reflect.TypeFor[causal.Chain](),
	} {
		s.define(typ)
		s.definitions[typ.Name()].(map[string]any)["properties"].(map[string]any)["schema"] = map[string]any{"const": name}
		forms = append(forms, map[string]any{"$ref": "#/definitions/" + typ.Name()})
	}
	slices.SortFunc(forms, func(a, b any) int {
		return strings.Compare(a.(map[string]any)["$ref"].(string), b.(map[string]any)["$ref"].(string))
	})
	var b bytes.Buffer
	if err := encode(&b, map[string]any{
		"$schema": "http://json-schema.org/draft-07/schema#", "title": "What opsim analyze and opsim why write with -o json",
		"oneOf": forms, "definitions": s.definitions,
	}); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// The schema in the docs is that of the types, and it admits what the forms write of real traces and refuses what they
// don't.
func TestSchema(t *testing.T) {
	made := makeSchema(t)
	golden(t, "../"+schemaFile, made) // golden files lie in testdata
	loaded, err := gojsonschema.NewSchema(gojsonschema.NewBytesLoader(made))
	if err != nil {
		t.Fatal(err)
	}
	admits := func(what string, b []byte, want bool) {
		t.Helper()
		r, err := loaded.Validate(gojsonschema.NewBytesLoader(b))
		if err != nil {
			t.Fatal(what, err)
		}
		if r.Valid() != want {
			t.Errorf("%s: admitted %v: %v", what, r.Valid(), r.Errors())
		}
	}
	var b bytes.Buffer
	write := func(f func() error) []byte {
		t.Helper()
		b.Reset()
		if err := f(); err != nil {
			t.Fatal(err)
		}
		return bytes.Clone(b.Bytes())
	}
	admits("a sample", write(func() error { return JSON(&b, sample()) }), true)
	admits("nothing", write(func() error { return JSON(&b, &analysis.Result{Schema: analysis.Schema}) }), true)
	admits("a chain", write(func() error { return WhyJSON(&b, chain()) }), true)
	admits("a comparison", write(func() error { return ComparisonJSON(&b, comparison()) }), true)
	recorded := write(func() error { return JSON(&b, analyzed(t, "statusrace")) })
	admits("a real trace", recorded, true)
	admits("another number", bytes.Replace(recorded, []byte(analysis.Schema), []byte("opreplay.analysis/v0"), 1), false)
	admits("a severity of its own", bytes.Replace(recorded, []byte(`"severity": "error"`), []byte(`"severity": "awful"`), 1), false)
	var without map[string]any
	if err := json.Unmarshal(recorded, &without); err != nil {
		t.Fatal(err)
	}
	delete(without, "findings")
	admits("no findings", write(func() error { return encode(&b, without) }), false)
}

func analyzed(t *testing.T, name string) *analysis.Result {
	t.Helper()
	for _, c := range cases.All() {
		if c.Name != name {
			continue
		}
		dir, err := c.Extract(t.TempDir())
		if err != nil {
			t.Fatal(err)
		}
		trace, err := traces.Open(dir)
		if err != nil {
			t.Fatal(err)
		}
		defer trace.Close() //nolint:errcheck // only read
		r, err := analysis.Analyze(context.Background(), trace, analysis.Options{})
		if err != nil {
			t.Fatal(err)
		}
		if len(r.Findings) == 0 {
			t.Fatal("no findings in", name)
		}
		return r
	}
	t.Fatal("no case", name)
	return nil
}

// comparison has every kind of change.
func comparison() *analysis.Comparison {
	r := sample()
	stat := func(v, low, high float64, unit string) analysis.Statistic {
		return analysis.Statistic{Value: v, Low: low, High: high, Unit: unit, Confidence: 0.95, N: 200}
	}
	shifted := analysis.FindingShift{Finding: r.Findings[0], Baseline: analysis.Effect{Value: 2, Unit: "writes/s in vain", Weight: 3}, Ratio: 3.7}
	return &analysis.Comparison{
		Schema: analysis.ComparisonSchema, Baseline: analysis.Looked{Trace: "v1.optrace", Records: 1000, Objects: 3, To: time.Unix(60, 0), From: time.Unix(0, 0)}, Looked: r.Looked,
		New: r.Findings[1:2], Worse: []analysis.FindingShift{shifted}, Gone: r.Findings[2:3], Tested: 31,
		Shifts: []analysis.Shift{
			{Measure: "duration of reconciles: site", Process: "siteop", Unit: "s", Before: stat(0.0012, 0.0011, 0.0013, "s"), After: stat(0.0031, 0.003, 0.0034, "s"), Ratio: 2.583, P: 3e-11, Test: "rank test"},
			{Measure: "refused: update, sites.web.example.com", Process: "siteop", Unit: "share", Before: stat(0, 0, 0.01, "share"), After: stat(0.333, 0.3, 0.36, "share"), P: 0.0012, Test: "Fisher"},
			{Measure: "error lines", Unit: "1/s", Before: stat(0, 0, 0.1, "1/s"), After: stat(2, 1, 3, "1/s"), P: 0.012, Test: "rates"},
		},
		Caveats: []string{"baseline: the trace is known to lack records in 1 place"},
	}
}

func TestComparison(t *testing.T) {
	var b bytes.Buffer
	if err := Comparison(&b, comparison(), Options{}); err != nil {
		t.Fatal(err)
	}
	golden(t, "comparison.txt", b.Bytes())
}
