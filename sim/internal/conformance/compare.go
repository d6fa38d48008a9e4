package conformance

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"sort"
	"strings"
)

// Difference is one place in which the answers to an operation differ. Real and Ours are what was there
// after normalising; Absent where there was nothing.
type Difference struct {
	Path       string
	Real, Ours any
}

// absent is the value of what is not there.
type absent struct{}

// Absent is the value of a Difference where one answer has nothing.
var Absent any = absent{}

func (absent) String() string { return "nothing" }

// String is one line, however long the values are.
func (d Difference) String() string {
	return fmt.Sprintf("%s: real %s, ours %s", d.Path, short(d.Real), short(d.Ours))
}

func short(v any) string {
	if v == Absent {
		return "nothing"
	}
	s := text(v)
	const most = 600
	if len(s) > most {
		return fmt.Sprintf("%s… (%d bytes)", s[:most], len(s))
	}
	return s
}

// compare normalises all answers of a run and finds where they differ.
func (p *Pair) compare(s *Sequence, real, ours *side) []*Outcome {
	nr, no := newNormal(s, real), newNormal(s, ours)
	var out []*Outcome
	for i, op := range s.Ops {
		o := &Outcome{Op: op, Real: real.answers[i], Ours: ours.answers[i]}
		out = append(out, o)
		nr.op, no.op = op, op
		if op.Do == Await {
			o.report(p.Known, diff("", map[string]any{"code": o.Real.Code}, map[string]any{"code": o.Ours.Code}))
			continue
		}
		o.report(p.Known, diff("", nr.answer(o.Real), no.answer(o.Ours)))
	}
	for _, o := range out {
		w, v := real.streams[o.Op.ID], ours.streams[o.Op.ID]
		if w == nil || v == nil {
			continue
		}
		nr.op, no.op = o.Op, o.Op
		o.RealEvents, o.OursEvents = w.told(), v.told()
		o.report(p.Known, diff("events", nr.value(o.RealEvents), no.value(o.OursEvents)))
		if w.over() != v.over() {
			o.report(p.Known, []Difference{{"ended", w.over(), v.over()}})
		}
	}
	return out
}

func (o *Outcome) report(known []Known, found []Difference) {
	for _, d := range found {
		if slices.ContainsFunc(known, func(k Known) bool { return k.Match(o, d) }) {
			o.Known = append(o.Known, d)
		} else {
			o.Differences = append(o.Differences, d)
		}
	}
}

// answer is all of an answer that is compared.
func (n *normal) answer(a *Answer) map[string]any {
	if a == nil {
		return nil
	}
	out := map[string]any{"code": json.Number(fmt.Sprint(a.Code))}
	h := map[string]any{}
	for k, v := range a.headers() {
		h[k] = n.plain(v)
	}
	out["header"] = h
	if a.Broken != "" {
		out["broken"] = a.Broken
	}
	switch {
	case a.Object != nil:
		out["body"] = n.value(a.Object)
	case len(a.Body) > 0:
		out["text"] = n.plain(string(a.Body))
	}
	return out
}

// diff finds where two decoded JSON values differ.
func diff(path string, a, b any) []Difference {
	switch x := a.(type) {
	case map[string]any:
		y, ok := b.(map[string]any)
		if !ok {
			break
		}
		var out []Difference
		keys := slices.Collect(maps.Keys(x))
		for k := range y {
			if _, ok := x[k]; !ok {
				keys = append(keys, k)
			}
		}
		sort.Strings(keys)
		for _, k := range keys {
			v, ok := x[k]
			w, also := y[k]
			if !ok {
				v = Absent
			}
			if !also {
				w = Absent
			}
			out = append(out, diff(join(path, k), v, w)...)
		}
		return out
	case []any:
		y, ok := b.([]any)
		if !ok || len(x) != len(y) {
			break
		}
		var out []Difference
		for i := range x {
			out = append(out, diff(fmt.Sprintf("%s[%d]", path, i), x[i], y[i])...)
		}
		return out
	}
	if equal(a, b) {
		return nil
	}
	return []Difference{{path, a, b}}
}

func join(path, k string) string {
	if strings.ContainsAny(k, "./[") {
		k = fmt.Sprintf("[%q]", k)
	}
	if path == "" {
		return k
	}
	return path + "." + k
}

func equal(a, b any) bool {
	if a == Absent || b == Absent {
		return a == b
	}
	return text(a) == text(b)
}
