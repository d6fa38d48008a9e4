package analysis

import (
	"strings"
	"testing"
	"time"

	"github.com/opreplay/opreplay/traces"
)

// stack is a row of the stacks table.
func (c *cluster) stack(id int64, frames ...traces.Frame) {
	c.add(&traces.Stack{StackID: id, Frames: frames})
}

// burn samples stacks in turn, hz times a second of one thread, for a while.
func (c *cluster) burn(d time.Duration, hz int, stacks ...int64) {
	for i := range int(d.Seconds() * float64(hz)) {
		c.sleep(time.Second / time.Duration(hz))
		c.add(&traces.Sample{PID: 7, TID: 9, StackID: stacks[i%len(stacks)], Weight: 1})
	}
}

var (
	sprintf = traces.Frame{Function: "fmt.Sprintf", File: "/go/fmt/print.go", Line: 239}
	vdso    = traces.Frame{Function: "[vdso]"}
	now     = traces.Frame{Function: "time.Now", File: "/go/time/time.go", Line: 1337}
	marshal = traces.Frame{Function: "encoding/json.Marshal", File: "/go/encoding/json/encode.go", Line: 161}
	render  = traces.Frame{Function: "main.(*SiteReconciler).render", File: "/src/sites.go", Line: 77}
	handler = traces.Frame{Function: "sigs.k8s.io/controller-runtime/pkg/internal/controller.(*Controller[...]).reconcileHandler", File: "/m/controller.go", Line: 340}
)

func TestHotStack(t *testing.T) {
	for name, hz := range map[string]int{"of the default": 99, "faster": 499} {
		t.Run(name, func(t *testing.T) {
			c := newCluster(t, "op")
			c.stack(1, sprintf, render, handler)
			c.stack(2, marshal, render, handler)
			c.stack(3, handler)
			c.stack(4, vdso, now, render, handler)
			c.burn(3*time.Second, hz, 3)
			c.burn(20*time.Second, hz, 1, 2, 4, 3) // fmt, json and the clock are how render burns
			f := c.analyze(NewHotStack()).only(t, "hot-stack")
			if !strings.Contains(f.What, "main.(*SiteReconciler).render (sites.go:77)") || f.Stack == 0 {
				t.Errorf("%+v", f)
			}
			if s := f.Statistics[0]; s.Value < 0.7 || s.Value > 0.8 {
				t.Errorf("share %+v", s)
			}
		})
	}
}

func TestReadLoop(t *testing.T) {
	c := newCluster(t, "op")
	c.stack(1, render)
	for range 15 {
		c.sleep(time.Second)
		c.add(&traces.KernelEvent{Kind: "read_loop", PID: 7, FD: 11, Count: 4000, StackID: 1})
	}
	f := c.analyze(NewHotStack()).only(t, "hot-stack")
	if !strings.Contains(f.What, "reads file descriptor 11") || !strings.Contains(f.What, "render (sites.go:77)") {
		t.Error(f.What)
	}
}

func TestNoHotStack(t *testing.T) {
	c := newCluster(t, "op")
	c.stack(1, sprintf, render, handler)
	c.stack(3, handler)
	c.burn(5*time.Second, 99, 1) // computes for a few seconds
	c.sleep(20 * time.Second)
	for range 30 { // a tenth of a second each second
		c.burn(100*time.Millisecond, 99, 1)
		c.sleep(900 * time.Millisecond)
	}
	c.add(&traces.KernelEvent{Kind: "read_loop", PID: 7, FD: 11, Count: 4000, StackID: 1}) // a burst
	c.sleep(time.Minute)
	c.add(&traces.KernelEvent{Kind: "read_loop", PID: 7, FD: 11, Count: 4000, StackID: 1})
	c.analyze(NewHotStack()).silent(t)
}
