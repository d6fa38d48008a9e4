package probes

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"unsafe"

	"github.com/cilium/ebpf"
	"github.com/google/go-cmp/cmp"

	"github.com/opreplay/opreplay/bpf"
	"github.com/opreplay/opreplay/bpf/internal/guest"
	"github.com/opreplay/opreplay/bpf/symbols"
)

// built is testdata/guest, stripped: once for all tests.
var built string

func guestPath(t *testing.T) string {
	t.Helper()
	if built == "" {
		path := guest.Build(t, "./testdata/guest", guest.Stripped)
		folder, err := os.MkdirTemp("", "probes-")
		if err != nil {
			t.Fatal(err)
		}
		built = filepath.Join(folder, "guest")
		if err := os.Rename(path, built); err != nil {
			t.Fatal(err)
		}
	}
	return built
}

func TestMain(m *testing.M) {
	code := m.Run()
	if built != "" {
		if err := os.RemoveAll(filepath.Dir(built)); err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = 1
		}
	}
	os.Exit(code)
}

// operator is testdata/guest, watched before it begins.
type operator struct {
	*Watcher
	*guest.Process
	symbol *symbols.Process
}

func startGuest(t *testing.T) *operator { return startWatched(t, true) }

// startWatched puts the probes in together or one by one.
func startWatched(t *testing.T, together bool) *operator {
	t.Helper()
	if err := bpf.Check(false); err != nil {
		t.Skipf("SKIPPED: %v", err)
	}
	processes, err := bpf.NewProcesses()
	if err != nil {
		t.Fatal(err)
	}
	guest.Closing(t, processes)
	path := guestPath(t)
	g := &operator{Process: guest.Start(t, path)}
	if g.symbol, err = symbols.OpenProcess(g.PID); err != nil {
		t.Fatal(err)
	}
	if g.Watcher, err = attach(processes, g.symbol.Binary, path, together); err != nil {
		t.Fatal(err)
	}
	guest.Closing(t, g.Watcher)
	if known, err := processes.Follow(g.PID); err != nil || !known {
		t.Fatalf("%s is known: %t, %v", symbols.GoVersion(g.PID), known, err)
	}
	return g
}

// events is what the guest did on its main goroutine, to its last call.
func (g *operator) events(t *testing.T) (all []*Event) {
	t.Helper()
	g.Say("")
	goid, err := strconv.ParseUint(g.Line(), 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	for {
		e, err := g.Next(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if e.GoID == goid {
			all = append(all, e)
		}
		if e.Kind == Response && len(all) > 1 && all[len(all)-2].Path == "/deep" {
			return all
		}
	}
}

// line is an event in words.
func line(e *Event) string {
	switch {
	case e.Kind == Request:
		body := string(e.Body)
		if len(body) > 20 {
			body = fmt.Sprintf("%s… of %d", body[:10], len(body))
		}
		return fmt.Sprintf("%s %s %s?%s %d %q", e.Kind, e.Method, e.Path, e.Query, e.BodyLength, body)
	case e.Kind == Response:
		return fmt.Sprintf("%s %d", e.Kind, e.Status)
	case e.After != 0:
		return fmt.Sprintf("%s %s|%s %s", e.Kind, e.Namespace, e.Name, e.After)
	}
	return fmt.Sprintf("%s %s|%s", e.Kind, e.Namespace, e.Name)
}

// All that the guest did is seen once and in its order: what it is, the key, the wait, the call with its
// query and its body, the answer. Likewise where the kernel is too old to put in all probes at once.
func TestSeesQueuesAndCalls(t *testing.T) {
	for name, together := range map[string]bool{"together": true, "one by one": false} {
		t.Run(name, func(t *testing.T) {
			var got []string
			g := startWatched(t, together)
			for _, e := range g.events(t) {
				got = append(got, line(e))
			}
			if diff := cmp.Diff(all, got); diff != "" {
				t.Errorf("wanted, and seen:\n%s", diff)
			}
			if _, lost, lostBodies, err := g.Counted(); lost != 0 || lostBodies != 0 || err != nil {
				t.Errorf("%d events and %d parts of bodies lost, %v", lost, lostBodies, err)
			}
		})
	}
}

// all is what the guest does.
var all = []string{
	// AddRateLimited puts the key back by AddAfter
	"add space|of-strings", "start space|of-strings", "addRateLimited space|of-strings", "addAfter space|of-strings 5ms", "addAfter space|of-strings 1h0m0s", "done space|of-strings",
	"add space|of-structs", "start space|of-structs", "addRateLimited space|of-structs", "addAfter space|of-structs 5ms", "addAfter space|of-structs 1h0m0s", "done space|of-structs",
	"add space|of-any", "start space|of-any", "addRateLimited space|of-any", "addAfter space|of-any 5ms", "addAfter space|of-any 1h0m0s", "done space|of-any",
	"add space|first", "addAfter space|later 1h0m0s", "addRateLimited space|failed", "done space|first",
	`request GET /apis/x?watch=true&resourceVersion=7 0 ""`, "response 418",
	`request POST /bytes? 7 "{\"a\":1}"`, "response 418",
	`request PUT /strings? 7 "{\"b\":2}"`, "response 418",
	`request PATCH /big? 1000000 "0123456789… of 1000000"`, "response 418",
	`request POST /pipe? 0 ""`, "response 418", // http.Request's 0 with a body means unknown
	`request GET /gone? 0 ""`, "response 0",
	`request GET /deep? 0 ""`, "response 404",
}

// A queue's additions and the end of the work on its keys name one and the same queue, and no other one.
func TestTellsQueuesApart(t *testing.T) {
	queues := map[string]map[uint64]bool{}
	for _, e := range startGuest(t).events(t) {
		if e.Kind != Add && e.Kind != Done {
			continue
		}
		if queues[e.Name] == nil {
			queues[e.Name] = map[uint64]bool{}
		}
		queues[e.Name][e.Queue] = true
	}
	all := map[uint64]bool{}
	for name, addresses := range queues {
		if len(addresses) != 1 {
			t.Errorf("%s: in queues %v", name, addresses)
		}
		for a := range addresses {
			if a == 0 || all[a] {
				t.Errorf("%s: in queue %#x, as others are", name, a)
			}
			all[a] = true
		}
	}
	if len(all) != 4 {
		t.Errorf("%d queues", len(all))
	}
}

// Tasks that come by a probe while another one is in it, on the same processor, find memory of their own; where there
// is none, an event is lost, and counted.
func TestMemoryInUseIsNotTaken(t *testing.T) {
	for _, c := range []struct {
		busy int
		lost bool
	}{{3, false}, {4, true}} {
		g := startGuest(t)
		for i := range c.busy {
			occupy(t, g.objects.Events, uint32(i))
		}
		g.Say("")
		g.Line()
		if g.Line(); c.lost { // it is done
			if seen, lost, _, err := g.Counted(); lost == 0 || lost != seen || err != nil {
				t.Errorf("%d of %d events lost, %v", lost, seen, err)
			}
			continue
		}
		if n := len(g.eventsSoFar(t)); n < len(all)-1 { // without its last answer
			t.Errorf("%d of %d events", n, len(all))
		}
	}
}

// occupy marks the I-th piece of memory as in use on all processors.
func occupy(t *testing.T, m *ebpf.Map, i uint32) {
	t.Helper()
	var slots []operatorEventsSlot
	if err := m.Lookup(i, &slots); err != nil {
		t.Fatal(err)
	}
	for cpu := range slots {
		slots[cpu].Busy = 1
	}
	if err := m.Put(i, slots); err != nil {
		t.Fatal(err)
	}
}

// eventsSoFar is what has been handed over, to the last call.
func (g *operator) eventsSoFar(t *testing.T) (got []*Event) {
	t.Helper()
	for len(got) == 0 || got[len(got)-1].Path != "/deep" {
		e, err := g.Next(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, e)
	}
	return got
}

func TestNamesTheLineThatCalls(t *testing.T) {
	g := startGuest(t)
	var request, add bool
	for _, e := range g.events(t) {
		var names []string
		for _, f := range g.symbol.Stack(e.Stack, e.Top) {
			names = append(names, f.Function)
		}
		switch {
		case e.Path == "/bytes":
			request = true
			wantCaller(t, names, "net/http.(*Transport).roundTrip", "main.calls.func2", "main.calls", "main.main")
		case e.Kind == Add && e.Name == "of-structs":
			add = true
			wantCaller(t, names, "k8s.io/client-go/util/workqueue.(*Typed[...]).Add", "main.work[...]", "main.main")
		}
	}
	if !request || !add {
		t.Errorf("request seen: %t, addition: %t", request, add)
	}
}

// wantCaller wants the functions to lie on the stack in this order, the first as its leaf.
func wantCaller(t *testing.T, stack []string, want ...string) {
	t.Helper()
	if len(stack) == 0 || stack[0] != want[0] {
		t.Errorf("the stack begins otherwise: %s", stack)
		return
	}
	i := 0
	for _, f := range stack {
		if i < len(want) && f == want[i] {
			i++
		}
	}
	if i < len(want) {
		t.Errorf("%s is not on the stack in its place: %s", want[i], strings.Join(stack, " < "))
	}
}

// The layout that Go reads and the one that C writes are the same.
func TestRecordLayout(t *testing.T) {
	var e operatorEvent
	var b operatorBody
	for name, pair := range map[string][2]uintptr{
		"event.len":    {unsafe.Offsetof(e.Len), lenAt},
		"event.stack":  {unsafe.Offsetof(e.StackBytes), stackAt},
		"event.text":   {unsafe.Offsetof(e.Text), textAt},
		"event.status": {unsafe.Offsetof(e.Status), 64},
		"event.body":   {unsafe.Offsetof(e.Body), 72},
		"event.queue":  {unsafe.Offsetof(e.Receiver), 88},
		"event head":   {unsafe.Offsetof(e.Stack), eventHead},
		"body head":    {unsafe.Offsetof(b.Data), bodyHead},
		"body.off":     {unsafe.Offsetof(b.Off), 20},
	} {
		if pair[0] != pair[1] {
			t.Errorf("%s: %d in C, %d in Go", name, pair[0], pair[1])
		}
	}
}
