package trial

import (
	"testing"
	"time"

	"github.com/opreplay/opreplay/analysis"
	"github.com/opreplay/opreplay/replay"
	"github.com/opreplay/opreplay/traces"
)

// attempt is a write of the status of widgets a/w by the operator, as rows show it; RULE is that of the fault that struck it.
func attempt(seq int64, from, to time.Duration, code int32, rule string) []traces.Record {
	r := &traces.Request{
		Head: traces.Head{Seq: seq + 2, TS: int64(to)}, Start: int64(from), StartSeq: seq, Process: "op", Verb: "patch", Subresource: "status",
		Code: code, Identity: widget("w", "", "").Identity,
	}
	return []traces.Record{
		&traces.Decision{Head: traces.Head{Seq: seq + 1, TS: int64(from)}, Kind: "request", Subject: "PATCH widgets a/w status by op", Rule: rule}, r,
	}
}

// What an operator says too late, since the plan kept its write from it, is the plan's doing; not what it says late by
// itself, what never comes right, nor what another detector finds.
func TestWaitedForThePlan(t *testing.T) {
	const rule = "answer: {request: …, code: timeout}"
	second := time.Second
	hung := append(attempt(10, second, 35*second, 504, rule), attempt(20, 36*second, 37*second, 200, "")...)
	refused := append(append(attempt(10, second, second, 500, rule), attempt(20, 5*second, 5*second, 500, rule)...), attempt(30, 12*second, 37*second, 200, "")...)
	idle := append(attempt(10, second, second, 500, rule), attempt(30, 37*second, 37*second, 200, "")...)
	const ready, down = `{"status":{"ready":true}}`, `{"status":{"ready":false}}`
	for name, c := range map[string]struct {
		rows     []traces.Record
		end      string
		detector string
		last     time.Duration
		want     bool
	}{
		"without an answer":               {hung, down, "probe", 37 * second, true},
		"refused, and written in the end": {refused, down, "probe", 37 * second, true},
		"did not try again":               {idle, down, "probe", 37 * second, false},
		"overwritten beside it":           {attempt(10, second, 2*second, 200, rule), down, "lost-status", 5 * second, false},
		"later than it had to wait":       {hung, down, "probe", 50 * second, false},
		"no fault struck":                 {append(attempt(10, second, 35*second, 504, ""), attempt(20, 36*second, 37*second, 200, "")...), down, "probe", 37 * second, false},
		"never written again":             {attempt(10, second, 35*second, 504, rule), down, "probe", 37 * second, false},
		"another end":                     {hung, ready, "probe", 37 * second, false},
		"overwritten, and right":          {attempt(10, second, 4*second, 200, rule), down, "lost-status", 3 * second, true},
		"overwritten for good":            {attempt(10, second, 4*second, 200, rule), ready, "lost-status", 3 * second, false},
		"what is no matter of time":       {hung, down, "crash-gap", 37 * second, false},
	} {
		p := &played{rows: &replay.Rows{All: c.rows}, story: tell(widget("w", uidA, c.end))}
		f := &analysis.Finding{
			Detector: c.detector, Field: analysis.FieldConditions, Total: 1, First: time.Unix(0, int64(2*second)), Last: time.Unix(0, int64(c.last)),
			Objects: []analysis.Object{{Group: "x.io", Resource: "widgets", Namespace: "a", Name: "w", UID: uidA}},
		}
		if got := waited(&Reference{story: tell(widget("w", uidA, down))}, p, newMask(), f); got != c.want {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
}

// What an older version makes an operator say for a while is no alarm where it is right in the end.
func TestPassingFindings(t *testing.T) {
	const old, now = `{"status":{"conditions":[{"type":"Ready","status":"False"}]}}`, `{"status":{"conditions":[{"type":"Ready","status":"True"}]}}`
	for _, c := range []struct {
		detector, field, end string
		want                 bool
	}{
		{"conflict-storm", "", now, true},
		{"observed-generation", analysis.FieldConditions, now, true},
		{"observed-generation", analysis.FieldConditions, old, false},
		{"observed-generation", "status.observedGeneration", now, false},
		{"lost-status", analysis.FieldConditions, now, false},
	} {
		p := &played{story: tell(widget("w", uidA, c.end))}
		f := &analysis.Finding{Detector: c.detector, Field: c.field, Objects: []analysis.Object{{Group: "x.io", Resource: "widgets", Namespace: "a", Name: "w", UID: uidA}}}
		if got := passes(&Reference{story: tell(widget("w", uidA, now))}, p, newMask(), f); got != c.want {
			t.Errorf("%s of %q: %v", c.detector, c.field, got)
		}
	}
}
