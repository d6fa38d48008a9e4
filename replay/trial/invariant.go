package trial

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"

	"github.com/google/cel-go/cel"
	"go.yaml.in/yaml/v3"

	"github.com/opreplay/opreplay/internal/cli"
	"github.com/opreplay/opreplay/traces"
)

// Invariant is a condition that has to hold, as an expression in CEL (https://cel.dev) that is true or false.
//
// Over the end of each run: objects is the list of all objects that there are. An expression that asks for a field
// that is not there does not hold.
//
//	objects.filter(o, o.kind == "Database").all(d, d.status.ready)
//
// Over each write, if it speaks of object: object is what was written, old what it was before, null for one that is
// new. An expression that asks for a field that is not there does not speak of that object, and holds.
//
//	object.kind != "Database" || old == null || object.spec.sizeGiB >= old.spec.sizeGiB
type Invariant struct {
	Name string `yaml:"name,omitempty" json:"name,omitempty"`
	Expr string `yaml:"expr" json:"expr"`
}

// ParseInvariants reads an expression, or "@FILE": a YAML list of {name, expr}.
func ParseInvariants(text string) ([]Invariant, error) {
	file, isFile := strings.CutPrefix(text, "@")
	if !isFile {
		return []Invariant{{Name: text, Expr: text}}, nil
	}
	content, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, cli.Usagef("--invariant @%s: no such file", file)
	} else if err != nil {
		return nil, cli.Usagef("--invariant: %w", err)
	}
	var all []Invariant
	d := yaml.NewDecoder(strings.NewReader(string(content)))
	d.KnownFields(true)
	if err := d.Decode(&all); err != nil {
		return nil, cli.Usagef("%s: want a list of {name, expr}: %w", file, err)
	}
	for i := range all {
		if all[i].Expr == "" {
			return nil, cli.Usagef("%s: invariant %d has no expr", file, i+1)
		}
		if all[i].Name == "" {
			all[i].Name = all[i].Expr
		}
	}
	return all, nil
}

// rule is an invariant that can be evaluated.
type rule struct {
	Invariant
	program cel.Program
	each    bool // over each write
}

func compile(all []Invariant) (rules []*rule, err error) {
	if len(all) == 0 {
		return nil, nil
	}
	env, err := cel.NewEnv(
		cel.Variable("objects", cel.ListType(cel.DynType)), cel.Variable("object", cel.DynType), cel.Variable("old", cel.DynType),
		cel.CrossTypeNumericComparisons(true), cel.OptionalTypes(),
	)
	if err != nil {
		return nil, fmt.Errorf("CEL: %w", err)
	}
	for _, v := range all {
		ast, issues := env.Compile(v.Expr)
		if issues.Err() != nil {
			return nil, cli.Usagef("invariant %q: %w", v.Name, issues.Err())
		}
		if t := ast.OutputType(); t != cel.BoolType && t != cel.DynType {
			return nil, cli.Usagef("invariant %q: is a %s; want a condition, true or false", v.Name, t)
		}
		r := &rule{Invariant: v}
		names := map[string]bool{}
		for _, ref := range ast.NativeRep().ReferenceMap() {
			names[ref.Name] = true
		}
		r.each = names["object"] || names["old"]
		if r.each && names["objects"] {
			return nil, cli.Usagef("invariant %q: speaks of objects (the end) and of object (each write); say one of them", v.Name)
		}
		if r.program, err = env.Program(ast); err != nil {
			return nil, cli.Usagef("invariant %q: %w", v.Name, err)
		}
		rules = append(rules, r)
	}
	return rules, nil
}

// holds evaluates. LACKS is what a condition asked for that is not there: one over a write then does not speak of that
// object, and holds; one over the end does not.
func (r *rule) holds(vars map[string]any) (ok bool, lacks string, err error) {
	out, _, err := r.program.Eval(vars)
	if err != nil {
		if strings.HasPrefix(err.Error(), noSuchKey) { // CEL has no type for it
			return r.each, err.Error(), nil
		}
		return false, "", cli.Usagef("invariant %q: %w", r.Name, err)
	}
	ok, isBool := out.Value().(bool)
	if !isBool {
		return false, "", cli.Usagef("invariant %q: is %v; want true or false", r.Name, out.Value())
	}
	return ok, "", nil
}

const noSuchKey = "no such key"

// invariants are those that a run breaks, each once.
func (r *Runner) invariants(p *played) (all []Alarm, err error) {
	if len(r.rules) == 0 {
		return nil, nil
	}
	var end []any
	for _, o := range p.story.objects {
		if !o.gone {
			end = append(end, decoded(o.text))
		}
	}
	for _, rule := range r.rules {
		var a *Alarm
		switch {
		case rule.each:
			a, err = rule.eachWrite(p.rows.All)
		case !p.lasting():
			a, err = rule.atEnd(end)
		}
		if err != nil {
			return nil, err
		}
		if a != nil {
			a.Oracle, a.Expected, a.Got = oracleInvariant+rule.Name, "true", "false"
			all = append(all, *a)
		}
	}
	return all, nil
}

// atEnd is that the rule does not hold for the objects that there are.
func (r *rule) atEnd(objects []any) (*Alarm, error) {
	ok, lacks, err := r.holds(map[string]any{"objects": objects})
	if ok || err != nil {
		return nil, err
	}
	what := fmt.Sprintf("at the end %q does not hold", r.Name)
	if lacks != "" {
		what += ": " + lacks
	}
	return &Alarm{What: what}, nil
}

// eachWrite is the first version of an object for which the rule does not hold.
func (r *rule) eachWrite(rows []traces.Record) (*Alarm, error) {
	last := map[string]any{}
	for _, row := range rows {
		w, ok := row.(*traces.WatchEvent)
		if !ok || w.Process != everything || w.UID == "" || w.Object == "" {
			continue
		}
		object, old := decoded(w.Object), last[w.UID]
		last[w.UID] = object
		if w.Type != string(traces.Added) && w.Type != string(traces.Modified) {
			continue
		}
		holds, _, err := r.holds(map[string]any{"object": object, "old": old})
		if err != nil {
			return nil, err
		}
		if !holds {
			return &Alarm{
				Object: nameOf(&w.Identity), Resource: kindOf(&w.Identity),
				What: fmt.Sprintf("%q does not hold for version %d of %s", r.Name, w.ResourceVersion, nameOf(&w.Identity)),
			}, nil
		}
	}
	return nil, nil
}

// decoded is an object in CEL's types: whole numbers are ints.
func decoded(text string) any {
	d := json.NewDecoder(strings.NewReader(text))
	d.UseNumber()
	var v any
	if d.Decode(&v) != nil {
		return nil
	}
	return whole(v)
}

func whole(v any) any {
	switch v := v.(type) {
	case map[string]any:
		for k, e := range v {
			v[k] = whole(e)
		}
	case []any:
		for i, e := range v {
			v[i] = whole(e)
		}
	case json.Number:
		if n, err := v.Int64(); err == nil {
			return n
		}
		f, _ := v.Float64() // JSON has no other numbers
		return f
	}
	return v
}
