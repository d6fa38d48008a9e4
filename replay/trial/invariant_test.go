package trial

import (
	"strings"
	"testing"

	"github.com/opreplay/opreplay/internal/cli"
	"github.com/opreplay/opreplay/replay"
	"github.com/opreplay/opreplay/sim/fault"
	"github.com/opreplay/opreplay/traces"
)

// A field that is not there: over the end that is what an invariant is broken by; over a write the object is none that
// it speaks of. What cannot be evaluated holds in neither case.
func TestInvariants(t *testing.T) {
	written := []*traces.WatchEvent{
		widget("a", uidA, `{"kind":"Widget","spec":{"size":3},"status":{"ready":true}}`),
		widget("b", uidB, `{"kind":"Widget","spec":{"size":"big"}}`),
	}
	p := &played{try: &Try{Plan: &fault.Plan{}}, story: tell(written...), rows: &replay.Rows{}}
	for _, w := range written {
		p.rows.All = append(p.rows.All, w)
	}
	const holds, broken, bad = "", "does not hold", "no such overload"
	for expr, want := range map[string]string{
		`objects.all(o, o.status.ready)`:                      "no such key: status",
		`objects.all(o, !has(o.status) || o.status.ready)`:    holds,
		`objects.exists(o, has(o.status) && !o.status.ready)`: broken,
		`objects.all(o, o.spec.size > 2)`:                     bad,
		`object.status.ready`:                                 holds,
		`!object.status.ready`:                                broken,
		`object.spec.size > 2`:                                bad,
		`old == null || object.spec.size == old.spec.size`:    holds,

		`objects.filter(o, o.kind == "Widget").all(o, has(o.spec) && has(o.status.ready))`: "no such key: status",
	} {
		rules, err := compile([]Invariant{{Name: "it", Expr: expr}})
		if err != nil {
			t.Fatalf("%s: %v", expr, err)
		}
		got := ""
		all, err := (&Runner{rules: rules}).invariants(p)
		if err != nil {
			if got = err.Error(); cli.ExitCode(err) != cli.ExitUsage {
				t.Errorf("%s: %v is no bad usage", expr, err)
			}
		} else if len(all) > 0 {
			got = all[0].What
		}
		if (want == "") != (got == "") || !strings.Contains(got, want) {
			t.Errorf("%s: %q, want %q", expr, got, want)
		}
		// Under a fault that does not end only each write counts.
		unended := *p
		unended.try = &Try{Plan: &fault.Plan{Faults: []fault.Fault{&fault.Unserve{Version: "x.io/v1"}}}}
		if all, err := (&Runner{rules: rules}).invariants(&unended); strings.Contains(expr, "objects") && (err != nil || len(all) > 0) {
			t.Errorf("%s, under a fault without an end: %+v, %v", expr, all, err)
		} else if !strings.Contains(expr, "objects") && want == broken && len(all) == 0 {
			t.Errorf("%s, of a write under a fault without an end: it holds", expr)
		}
	}
}
