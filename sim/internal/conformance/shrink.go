package conformance

import (
	"context"
	"encoding/json"
	"slices"
)

// Shrink makes a sequence that shows a difference as short as it can: it leaves out operations, and then
// fields of the bodies that remain, as long as one of the differences stays. It runs the sequence anew for
// each try, at most tries times, and returns the shortest that showed it.
func (p *Pair) Shrink(ctx context.Context, s *Sequence, want []Difference, tries int) (*Sequence, error) {
	sh := &shrinker{p: p, ctx: ctx, want: signatures(want), tries: tries}
	ops := sh.operations(s, s.Ops)
	ops = sh.bodies(s, ops)
	return with(s, ops), sh.err
}

type shrinker struct {
	p     *Pair
	ctx   context.Context
	want  map[string]bool
	tries int
	err   error
}

func with(s *Sequence, ops []*Op) *Sequence {
	out := *s
	out.Ops = ops
	return &out
}

// signatures say which differences are the same one: those in the same place.
func signatures(ds []Difference) map[string]bool {
	out := map[string]bool{}
	for _, d := range ds {
		out[d.Path] = true
	}
	return out
}

// shows says whether the operations show one of the differences.
func (sh *shrinker) shows(s *Sequence, ops []*Op) bool {
	if sh.tries <= 0 || sh.err != nil || len(ops) == 0 {
		return false
	}
	sh.tries--
	outcomes, err := sh.p.Run(sh.ctx, with(s, ops))
	if err != nil {
		sh.err = err
		return false
	}
	return slices.ContainsFunc(outcomes, func(o *Outcome) bool {
		return slices.ContainsFunc(o.Differences, func(d Difference) bool { return sh.want[d.Path] })
	})
}

// operations is delta debugging (Zeller and Hildebrandt, 2002) by complements: ever smaller parts are left
// out, from the end, for what comes after a difference is seldom its cause.
func (sh *shrinker) operations(s *Sequence, ops []*Op) []*Op {
	for size := (len(ops) + 1) / 2; size > 0; {
		smaller := false
		for end := len(ops); end > 0; end -= size {
			begin := max(0, end-size)
			rest := append(slices.Clone(ops[:begin]), ops[end:]...)
			if sh.shows(s, rest) {
				ops, smaller = rest, true
			}
		}
		switch {
		case size > 1:
			size /= 2
		case !smaller:
			return ops
		}
		if sh.tries <= 0 {
			return ops
		}
	}
	return ops
}

// bodies leaves out fields of JSON bodies, the outermost first.
func (sh *shrinker) bodies(s *Sequence, ops []*Op) []*Op {
	for i, op := range ops {
		var body any
		if json.Unmarshal([]byte(op.Body), &body) != nil {
			continue
		}
		try := func(body any) bool {
			text, err := json.Marshal(body)
			if err != nil {
				return false
			}
			changed := *op
			changed.Body = string(text)
			next := slices.Clone(ops)
			next[i] = &changed
			if !sh.shows(s, next) {
				return false
			}
			ops = next
			return true
		}
		prune(body, func() bool { return try(body) })
	}
	return ops
}

// prune deletes each field of v for which keep says so, and puts back the others.
func prune(v any, keep func() bool) {
	switch v := v.(type) {
	case map[string]any:
		for _, k := range keys(v) {
			old := v[k]
			delete(v, k)
			if keep() {
				continue
			}
			v[k] = old
			prune(old, keep)
		}
	case []any:
		for _, x := range v {
			prune(x, keep)
		}
	}
}
