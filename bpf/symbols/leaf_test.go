package symbols

import (
	"testing"

	"github.com/opreplay/opreplay/traces"
)

// At a function's entry frame pointers show the caller's caller next; the caller itself is the word at
// the stack pointer, then, once the frame pointer is pushed, the word above it.
func TestLeafCallerIsFoundAgain(t *testing.T) {
	b := open(t, build(t))
	callee, caller, outer := byName(t, b, "main.call"), byName(t, b, "main.main"), byName(t, b, "runtime.main")
	p := &Process{Binary: b, maps: []mapping{{from: 0, to: 1 << 40, program: true}}}
	ret, outerRet := caller.Entry+64, outer.Entry+64
	pushed := afterPush(t, callee)
	for _, c := range []struct {
		name string
		ip   uint64
		pcs  []uint64
		sp   [2]uint64
		want []string
	}{
		{"at entry", callee.Entry, []uint64{outerRet}, [2]uint64{ret, 1}, []string{"main.call", "main.main", "runtime.main"}},
		{"frame pointer pushed", pushed, []uint64{outerRet}, [2]uint64{1, ret}, []string{"main.call", "main.main", "runtime.main"}},
		{"frame pointer set", pushed, []uint64{ret, outerRet}, [2]uint64{1, ret}, []string{"main.call", "main.main", "runtime.main"}},
		{"no code on the stack", callee.Entry, []uint64{outerRet}, [2]uint64{1 << 50, 1}, []string{"main.call", "runtime.main"}},
	} {
		p.cache = map[uint64][]traces.Frame{}
		var got []string
		for _, f := range p.Stack(append([]uint64{c.ip}, c.pcs...), c.sp) {
			if !f.Inlined {
				got = append(got, f.Function)
			}
		}
		if len(got) != len(c.want) {
			t.Errorf("%s: %v, not %v", c.name, got, c.want)
			continue
		}
		for i := range got {
			if got[i] != c.want[i] {
				t.Errorf("%s: %v, not %v", c.name, got, c.want)
			}
		}
	}
}

func byName(t *testing.T, b *Binary, name string) Func {
	t.Helper()
	for i := range b.NumFuncs() {
		if fn := b.Func(i); fn.Name() == name {
			return fn
		}
	}
	t.Fatalf("no function %s", name)
	return Func{}
}

// afterPush is the first instruction of FN at which the stack is eight bytes deep.
func afterPush(t *testing.T, fn Func) uint64 {
	t.Helper()
	for pc := fn.Entry; pc < fn.End; pc++ {
		if delta, ok := fn.SPDelta(pc); ok && delta == 8 {
			return pc
		}
	}
	t.Fatalf("%s never pushes its frame pointer", fn.Name())
	return 0
}
