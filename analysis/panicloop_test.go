package analysis

import (
	"strings"
	"testing"
	"time"
)

const nilStack = "goroutine 120 [running]:\nk8s.io/apimachinery/pkg/util/runtime.logPanic({0x1, 0x2})\n\t/m/k8s.io/apimachinery/runtime.go:132 +0xb4\npanic({0x1a, 0x2b})\n\t/go/src/runtime/panic.go:783 +0x132\nmain.(*SiteReconciler).owner(...)\n\t/src/sites.go:88\nmain.(*SiteReconciler).Reconcile(0xc0, {0x1, 0x2})\n\t/src/sites.go:51 +0x20\n"

// panicked is what controller-runtime logs of a panic that it recovers: two lines.
func panicked(c *cluster, by string, r ref) {
	pass := c.seq
	value := "runtime error: invalid memory address or nil pointer dereference"
	c.log(by, "error", "Observed a panic", fieldsOf(r, pass, m{"panic": value, "panicGoValue": "\"x\"", "stacktrace": nilStack}))
	c.log(by, "error", "Reconciler error", fieldsOf(r, pass, m{"error": "panic: " + value + " [recovered]"}))
}

func TestPanicLoop(t *testing.T) {
	c := newCluster(t, "op")
	s := site(c, "front")
	site(c, "well")
	wait := 5 * time.Millisecond
	for range 8 {
		panicked(c, "op", s)
		c.sleep(wait)
		wait *= 2
	}
	f := c.analyze(NewPanicLoop()).only(t, "panic-loop")
	if f.Severity != Error || f.Process != "op" || f.Objects[0].String() != "sites.web.example.com shop/front" || f.Total != 1 || f.Effect.Value != 8 {
		t.Errorf("%+v", f)
	}
	for _, want := range []string{"8 times", "main.(*SiteReconciler).owner (sites.go:88)", "site shop/front", "nil pointer"} {
		if !strings.Contains(f.What, want) {
			t.Errorf("%q lacks %q", f.What, want)
		}
	}
	if !strings.Contains(f.Cause, "absent") {
		t.Error(f.Cause)
	}
}

func TestPanicLoopOfManyKeysIsOneFinding(t *testing.T) {
	c := newCluster(t, "op")
	a, b := site(c, "a"), site(c, "b")
	for range 4 {
		panicked(c, "op", a)
		panicked(c, "op", b)
		c.sleep(time.Second)
	}
	if f := c.analyze(NewPanicLoop()).only(t, "panic-loop"); f.Total != 2 || f.Effect.Value != 8 {
		t.Errorf("%+v", f)
	}
}

func TestPanicLoopOfAProcessThatIsStartedAgain(t *testing.T) {
	c := newCluster(t, "op")
	site(c, "front")
	for range 4 {
		c.log("op", "info", "Starting workers", nil)
		c.log("op", "", "panic: interface conversion: interface {} is cache.DeletedFinalStateUnknown, not *main.Route", nil)
		c.log("op", "", "", nil)
		for _, l := range []string{"goroutine 71 [running]:", "main.(*Table).remove(0xc000, {0x1, 0x2})", "\t/src/table.go:33 +0x85", "k8s.io/client-go/tools/cache.(*processorListener).run()", "\t/m/x.go:1 +0x1", "exit status 2"} {
			c.log("op", "", l, nil)
		}
		c.sleep(10 * time.Second)
	}
	f := c.analyze(NewPanicLoop()).only(t, "panic-loop")
	if !strings.Contains(f.What, "main.(*Table).remove (table.go:33)") || !strings.Contains(f.What, "4 times") {
		t.Error(f.What)
	}
}

// What else is printed while a process dies comes between the lines of its stack, and need not look like a call.
func TestPanicLoopWithOtherLinesInTheStack(t *testing.T) {
	c := newCluster(t, "op")
	site(c, "front")
	for range 4 {
		for _, l := range []string{"panic: x", "goroutine 1 [running]:", "bye :)", "main.(*Table).remove(0xc000)", "\t/src/table.go:33 +0x85"} {
			c.log("op", "", l, nil)
		}
		c.sleep(10 * time.Second)
	}
	if f := c.analyze(NewPanicLoop()).only(t, "panic-loop"); !strings.Contains(f.What, "main.(*Table).remove (table.go:33)") {
		t.Error(f.What)
	}
}

func TestPanicLoopByPasses(t *testing.T) {
	c := newCluster(t, "op")
	s := site(c, "front")
	for range 3 {
		c.sleep(time.Second)
		c.pass("op", "site", s, 0, func() { c.sleep(time.Millisecond) }).Outcome = "panic"
	}
	if f := c.analyze(NewPanicLoop()).only(t, "panic-loop"); f.Effect.Value != 3 {
		t.Errorf("%+v", f)
	}
}

func TestNoPanicLoop(t *testing.T) {
	c := newCluster(t, "op")
	for _, name := range []string{"a", "b", "c", "d"} { // each key once, and one again: it heals
		panicked(c, "op", site(c, name))
	}
	panicked(c, "op", ref{sites, "a"})
	c.log("op", "info", "panic button pressed", fieldsOf(ref{sites, "a"}, 1))
	c.analyze(NewPanicLoop()).none(t)
}
