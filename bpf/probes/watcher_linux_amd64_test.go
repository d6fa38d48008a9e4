package probes

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
	"unsafe"

	"github.com/google/go-cmp/cmp"

	"github.com/opreplay/opreplay/bpf"
	"github.com/opreplay/opreplay/bpf/symbols"
)

// folder has what the tests build.
var folder string

func TestMain(m *testing.M) {
	code := 1
	var err error
	if folder, err = os.MkdirTemp("", "probes-"); err == nil {
		code = m.Run()
		err = os.RemoveAll(folder)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

// built compiles testdata/guest, once for all tests.
var built = sync.OnceValues(func() (string, error) {
	path := filepath.Join(folder, "guest")
	build := exec.Command("go", "build", "-ldflags=-s -w", "-o", path, "./testdata/guest")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("go build: %w\n%s", err, out)
	}
	return path, nil
})

// guest runs testdata/guest, stripped, watched before it begins.
type guest struct {
	*Watcher
	pid    int
	start  func()
	out    *bufio.Scanner
	symbol *symbols.Process
}

func startGuest(t *testing.T) *guest {
	t.Helper()
	if err := bpf.Check(false); err != nil {
		t.Skipf("SKIPPED: %v", err)
	}
	path, err := built()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(path)
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	g := &guest{pid: cmd.Process.Pid, out: bufio.NewScanner(stdout)}
	g.start = func() { _, _ = io.WriteString(stdin, "\n") }
	t.Cleanup(func() {
		_ = stdin.Close()
		_ = cmd.Wait()
	})
	if g.symbol, err = symbols.OpenProcess(g.pid); err != nil {
		t.Fatal(err)
	}
	if g.Watcher, err = Attach(g.symbol.Binary, path); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := g.Close(); err != nil {
			t.Error(err)
		}
	})
	if known, err := g.Follow(g.pid); err != nil || !known {
		t.Fatalf("%s is known: %t, %v", symbols.GoVersion(g.pid), known, err)
	}
	return g
}

// events is what the guest did on its main goroutine, to its last call.
func (g *guest) events(t *testing.T) (all []*Event) {
	t.Helper()
	g.start()
	if !g.out.Scan() {
		t.Fatal("the guest printed nothing")
	}
	goid, err := strconv.ParseUint(g.out.Text(), 10, 64)
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
// query and its body, the answer.
func TestSeesQueuesAndCalls(t *testing.T) {
	var got []string
	for _, e := range startGuest(t).events(t) {
		got = append(got, line(e))
	}
	want := []string{
		// AddRateLimited puts the key back by AddAfter
		"add |space/of-strings", "start |space/of-strings", "addRateLimited |space/of-strings", "addAfter |space/of-strings 5ms", "addAfter |space/of-strings 1h0m0s", "done |space/of-strings",
		"add space|of-structs", "start space|of-structs", "addRateLimited space|of-structs", "addAfter space|of-structs 5ms", "addAfter space|of-structs 1h0m0s", "done space|of-structs",
		"add |space/of-any", "start |space/of-any", "addRateLimited |space/of-any", "addAfter |space/of-any 5ms", "addAfter |space/of-any 1h0m0s", "done |space/of-any",
		"add space|first", "addAfter space|later 1h0m0s", "addRateLimited space|failed", "done space|first",
		`request GET /apis/x?watch=true&resourceVersion=7 0 ""`, "response 418",
		`request POST /bytes? 7 "{\"a\":1}"`, "response 418",
		`request PUT /strings? 7 "{\"b\":2}"`, "response 418",
		`request PATCH /big? 1000000 "0123456789… of 1000000"`, "response 418",
		`request POST /pipe? 0 ""`, "response 418", // http.Request's 0 with a body means unknown
		`request GET /gone? 0 ""`, "response 0",
		`request GET /deep? 0 ""`, "response 404",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("wanted, and seen:\n%s", diff)
	}
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

// What Next has returned when there was nothing left is all that happened before.
func TestSaysUpToWhenItHasSeen(t *testing.T) {
	g := startGuest(t)
	events := g.events(t)
	last := events[len(events)-1].Time
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		for g.Seen() <= last {
			<-time.After(time.Millisecond)
		}
		cancel()
	}()
	for {
		if e, err := g.Next(ctx); err != nil {
			return
		} else if e.Time < g.Seen() {
			t.Errorf("%s at %s, when all up to %s was seen", e.Kind, e.Time, g.Seen())
		}
	}
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
