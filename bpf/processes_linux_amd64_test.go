package bpf

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"testing"

	"github.com/cilium/ebpf"

	"github.com/opreplay/opreplay/bpf/internal/guest"
	"github.com/opreplay/opreplay/bpf/symbols"
)

// next is the next thing in the life of a process that is not this test's own.
func next(t *testing.T, p *Processes) Life {
	t.Helper()
	l, err := p.Next(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// A child is followed from its beginning, becomes another program, and is let go of at its end; so is the process
// that was named.
func TestChildrenAreFollowedUntilTheirEnd(t *testing.T) {
	p := processes(t)
	spin := guest.Build(t, "./testdata/spin", guest.Stripped)
	shell := exec.Command("/bin/sh", "-c", `read go; "$0" <&3 & read done; kill $!; wait`, spin)
	input, output := pipe(t)
	hold, _ := pipe(t) // what the child reads: it ends by the signal alone
	shell.Stdin, shell.ExtraFiles = input, []*os.File{hold}
	if err := shell.Start(); err != nil {
		t.Fatal(err)
	}
	if known, err := p.Follow(shell.Process.Pid); err != nil || known {
		t.Fatalf("a shell's goroutines are known: %t, %v", known, err)
	}
	say(t, output)
	forked := next(t, p)
	if forked.What != Forked || forked.Parent != shell.Process.Pid {
		t.Fatalf("%+v", forked)
	}
	child := forked.PID
	if got := next(t, p); got.What != Executed || got.PID != child || got.Time <= forked.Time {
		t.Errorf("%+v, not the child's other program", got)
	}
	var target processesTarget
	if err := p.objects.Targets.Lookup(uint32(child), &target); err != nil || target.Known != 1 {
		t.Errorf("the child %s: %+v, %v", symbols.GoVersion(child), target, err)
	}
	say(t, output)
	if got := next(t, p); got.What != Ended || got.PID != child {
		t.Errorf("%+v, not the child's end", got)
	}
	if err := shell.Wait(); err != nil {
		var exit *exec.ExitError
		if !errors.As(err, &exit) {
			t.Fatal(err)
		}
	}
	if got := next(t, p); got.What != Ended || got.PID != shell.Process.Pid {
		t.Errorf("%+v, not the shell's end", got)
	}
	for _, pid := range []int{child, shell.Process.Pid} {
		if err := p.objects.Targets.Lookup(uint32(pid), &target); !errors.Is(err, ebpf.ErrKeyNotExist) {
			t.Errorf("process %d is followed though it is gone: %v", pid, err)
		}
	}
	if lost, err := p.Lost(); lost != 0 || err != nil {
		t.Errorf("%d lost, %v", lost, err)
	}
}

// Who has ended is not followed, even before its parent has looked: its number may be another's at any time.
func TestEndedProcessesAreNotFollowed(t *testing.T) {
	p := processes(t)
	cmd := exec.Command("/bin/true")
	end, err := cmd.StdoutPipe() // closed at its end
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if _, err := end.Read(make([]byte, 1)); err == nil {
		t.Fatal("true says something")
	}
	for alive(cmd.Process.Pid) && t.Context().Err() == nil { // until the kernel has torn it down
	}
	if _, err := p.Follow(cmd.Process.Pid); !errors.Is(err, os.ErrProcessDone) {
		t.Errorf("followed: %v", err)
	}
	var target processesTarget
	if err := p.objects.Targets.Lookup(uint32(cmd.Process.Pid), &target); !errors.Is(err, ebpf.ErrKeyNotExist) {
		t.Errorf("%v", err)
	}
	_ = cmd.Wait()
}

// The processor time of a child is sampled as its parent's, one that was there before it was followed too.
func TestChildrenAreSampled(t *testing.T) {
	t.Run("later", func(t *testing.T) { childIsSampled(t, false) })
	t.Run("before", func(t *testing.T) { childIsSampled(t, true) })
}

func childIsSampled(t *testing.T, before bool) {
	p, s := sampler(t, SamplerOptions{Hz: 997})
	spin := guest.Build(t, "./testdata/spin", guest.Stripped)
	shell := guest.Start(t, "/bin/sh", "-c", `read go; (sh -c '"$0"; true' "$0"); true`, spin)
	var goid string
	if before {
		shell.Say("")
		goid = shell.Line()
	}
	if _, err := p.Follow(shell.PID); err != nil {
		t.Fatal(err)
	}
	if !before {
		shell.Say("")
		goid = shell.Line()
	}
	child := 0
	for child == 0 {
		if l := next(t, p); l.What == Executed && symbols.GoVersion(l.PID) != "" {
			child = l.PID
		}
	}
	known := 0
	for known < 50 {
		x, err := s.Next(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if x.PID == child && fmt.Sprint(x.GoID) == goid {
			known++
		}
	}
}

func pipe(t *testing.T) (r, w *os.File) {
	t.Helper()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = r.Close()
		_ = w.Close()
	})
	return r, w
}

func say(t *testing.T, w *os.File) {
	t.Helper()
	if _, err := w.WriteString("\n"); err != nil {
		t.Fatal(err)
	}
}
