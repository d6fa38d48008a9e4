package events

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/opreplay/opreplay/bpf"
	"github.com/opreplay/opreplay/bpf/internal/guest"
	"github.com/opreplay/opreplay/bpf/symbols"
)

// watched is testdata/guest, of which events are told.
type watched struct {
	*guest.Process
	*Watcher
	symbols *symbols.Process
}

func watch(t testing.TB, o Options) *watched {
	t.Helper()
	if err := bpf.Check(false); err != nil {
		t.Skipf("SKIPPED: %v", err)
	}
	processes, err := bpf.NewProcesses()
	if err != nil {
		t.Fatal(err)
	}
	guest.Closing(t, processes)
	w := &watched{Process: guest.Start(t, guest.Build(t, "./testdata/guest", guest.Stripped))}
	if w.Watcher, err = Watch(processes, o); err != nil {
		t.Fatal(err)
	}
	guest.Closing(t, w.Watcher)
	if _, err := processes.Follow(w.PID); err != nil {
		t.Fatal(err)
	}
	if w.symbols, err = symbols.OpenProcess(w.PID); err != nil {
		t.Fatal(err)
	}
	return w
}

// do has the guest do something, which fails with WANT, "<nil>" for not.
func (w *watched) do(t testing.TB, command, want string) {
	t.Helper()
	w.Say(command)
	if got := w.Line(); !strings.Contains(got, want) {
		t.Fatalf("%s: %s, not %s", command, got, want)
	}
}

// so is all that happened until now.
func (w *watched) so(t testing.TB) (all []*Event) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	now := bpf.Monotonic()
	seen := make(chan struct{})
	go func() {
		defer close(seen)
		for w.Seen() < now && t.Context().Err() == nil {
			<-time.After(time.Millisecond)
		}
		cancel()
	}()
	for {
		e, err := w.Next(ctx)
		if ctx.Err() != nil {
			<-seen
			return append(all, w.Rest()...)
		}
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, e)
	}
}

// wantFunction wants FUNCTION on the event's stack.
func (w *watched) wantFunction(t testing.TB, e *Event, function string) {
	t.Helper()
	var names []string
	for _, f := range w.symbols.Stack(e.Stack, e.Top) {
		names = append(names, f.Function)
	}
	if !strings.Contains(strings.Join(names, " ")+" ", function+" ") {
		t.Errorf("%s: %s is not on the stack: %s", e.Kind, function, strings.Join(names, " < "))
	}
}

func (w *watched) wantNothingLost(t testing.TB) {
	t.Helper()
	if lost, err := w.Lost(); lost != 0 || err != nil {
		t.Errorf("%d lost, %v", lost, err)
	}
}

var everything = Options{Refused: true, Forks: true, NoSpace: true, ReadLoops: true}

// shut is an address of the network where nobody listens, open one where somebody does.
func shutAndOpen(t testing.TB, network, host string) (shut, open string) {
	t.Helper()
	listen := func() net.Listener {
		l, err := net.Listen(network, net.JoinHostPort(host, "0"))
		if err != nil {
			t.Skipf("SKIPPED: no %s on this machine: %v", network, err)
		}
		return l
	}
	l := listen()
	shut = l.Addr().String()
	defer l.Close() //nolint:errcheck // so that the port is no other one's meanwhile
	other := listen()
	t.Cleanup(func() { _ = other.Close() })
	return shut, other.Addr().String()
}

// A connection that is refused is seen though connect itself never says so, with address and port, once for all of
// a second; one that is not, is not.
func TestRefusedConnections(t *testing.T) {
	for network, host := range map[string]string{"tcp4": "127.0.0.1", "tcp6": "::1"} {
		t.Run(network, func(t *testing.T) {
			shut, open := shutAndOpen(t, network, host)
			w := watch(t, everything)
			w.do(t, "connect "+open, "<nil>")
			if all := w.so(t); len(all) != 0 {
				t.Errorf("an open port: %+v", all[0])
			}
			for range 3 {
				w.do(t, "connect "+shut, "connection refused")
			}
			all := w.so(t)
			var n int64
			for _, e := range all {
				if got := netip.AddrPortFrom(e.Address, uint16(e.Port)).String(); e.Kind != Refused || got != shut || e.PID != w.PID || e.FD != -1 {
					t.Errorf("%+v (%s), not of %s", e, got, shut)
				}
				w.wantFunction(t, e, "main.connect")
				n += e.Count
			}
			if n != 3 || len(all) > 2 { // two, if a second's end lay between
				t.Errorf("%d refusals in %d events", n, len(all))
			}
			w.wantNothingLost(t)
		})
	}
}

// Each process that is started counts, threads do not.
func TestForks(t *testing.T) {
	w := watch(t, everything)
	w.do(t, "start /bin/true 7", "<nil>")
	var n int64
	for _, e := range w.so(t) {
		if e.Kind != Fork || e.PID != w.PID {
			t.Errorf("%+v", e)
		}
		n += e.Count
	}
	if n < 7 || n > 8 { // Go looks once whether the kernel has pidfds, by a child
		t.Errorf("%d forks", n)
	}
	w.wantNothingLost(t)
}

// tmpfs mounts a file system of SIZE bytes.
func tmpfs(t testing.TB, size string) string {
	t.Helper()
	dir := t.TempDir()
	if err := unix.Mount("tmpfs", dir, "tmpfs", 0, "size="+size+",nr_inodes=20"); err != nil {
		t.Skipf("SKIPPED: mounting a small file system takes CAP_SYS_ADMIN: %v", err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(dir, 0); err != nil {
			t.Error(err)
		}
	})
	return dir
}

// A file system that is full is seen by the call that finds it so, with the descriptor where there is one; errors of
// other kinds are not.
func TestNoSpace(t *testing.T) {
	dir := tmpfs(t, "1m")
	w := watch(t, everything)
	w.do(t, "make "+filepath.Join(dir, "folder"), "<nil>")
	w.do(t, "make "+filepath.Join(dir, "folder"), "file exists")
	w.do(t, "make "+filepath.Join(dir, "none", "folder"), "no such file")
	if all := w.so(t); len(all) != 0 {
		t.Errorf("with space left: %+v", all[0])
	}
	for _, c := range []struct {
		command, function string
		fd                bool
	}{
		{"fill " + filepath.Join(dir, "file"), "main.fill", true},
		{"allocate " + filepath.Join(dir, "other"), "main.do", true},
	} {
		w := watch(t, everything)
		w.do(t, c.command, "no space left on device")
		all := w.so(t)
		if len(all) != 1 || all[0].Kind != NoSpace || all[0].Count != 1 || (all[0].FD > 2) != c.fd {
			t.Errorf("%s: %+v", c.command, all)
			continue
		}
		w.wantFunction(t, all[0], c.function)
	}
	for i := 0; ; i++ {
		w.Say("make " + filepath.Join(dir, fmt.Sprint("folder-", i)))
		if strings.Contains(w.Line(), "no space left on device") {
			break
		}
	}
	if all := w.so(t); len(all) != 1 || all[0].Kind != NoSpace || all[0].FD != -1 {
		t.Errorf("without inodes: %+v", all)
	}
}

// A stack that reads more than the threshold in each second, for longer than the hold time, is told of; one that
// reads less, or for a shorter time, is not.
func TestReadLoops(t *testing.T) {
	o := everything
	o.Reads, o.Hold = 1000, 3*time.Second
	w := watch(t, o)
	stop := filepath.Join(t.TempDir(), "stop")
	reads := func() (n int64) {
		said := w.Line()
		if _, err := fmt.Sscanf(said, "%d reads: <nil>", &n); err != nil {
			t.Fatalf("%s: %v", said, err)
		}
		return n
	}
	for _, c := range []struct {
		long string
		rate int
	}{{"1500ms", 3000}, {"4s", 500}} {
		w.Say(fmt.Sprintf("read /proc/self/exe %s %d %s", c.long, c.rate, stop))
		reads()
		if all := w.so(t); len(all) != 0 {
			t.Errorf("%d reads a second for %s: %+v", c.rate, c.long, all[0])
		}
	}
	// Above 16 times the threshold one in 16 is counted, for 16: 100,000 would be some 21,000 without that. On a busy
	// machine it may take some time until the guest can read as much for as long.
	w.Say(fmt.Sprintf("read /proc/self/exe 60s 100000 %s", stop))
	ctx, cancel := context.WithTimeout(t.Context(), 70*time.Second)
	defer cancel()
	var most int64
	for most < 30_000 {
		e, err := w.Next(ctx)
		if err != nil {
			t.Fatal(err)
		}
		if e.Kind != ReadLoop || e.PID != w.PID || e.FD < 3 || e.Persist < o.Hold {
			t.Errorf("%+v", e)
		}
		w.wantFunction(t, e, "main.read")
		if l := w.Loops(); len(l) == 1 && (l[0].PID != w.PID || l[0].Rate != float64(e.Count) || l[0].Persist != e.Persist) {
			t.Errorf("%+v, and hot is %+v", e, l[0])
		}
		most = max(most, e.Count)
	}
	if err := os.WriteFile(stop, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if n := reads(); most > n {
		t.Errorf("%d of %d reads in one second", most, n)
	}
	w.wantNothingLost(t)
}

// The layout that Go reads and the one that C writes are the same.
func TestRecordLayout(t *testing.T) {
	var h eventsHappening
	for name, pair := range map[string][2]uintptr{
		"kind":        {unsafe.Offsetof(h.Kind), kindAt},
		"pid":         {unsafe.Offsetof(h.Pid), pidAt},
		"tid":         {unsafe.Offsetof(h.Tid), tidAt},
		"fd":          {unsafe.Offsetof(h.Fd), fdAt},
		"address":     {unsafe.Offsetof(h.Address), addressAt},
		"port":        {unsafe.Offsetof(h.Port), portAt},
		"family":      {unsafe.Offsetof(h.Family), familyAt},
		"count":       {unsafe.Offsetof(h.Count), countAt},
		"persist":     {unsafe.Offsetof(h.Persist), persistAt},
		"stack bytes": {unsafe.Offsetof(h.StackBytes), stackLenAt},
		"top":         {unsafe.Offsetof(h.Top), topAt},
		"stack":       {unsafe.Offsetof(h.Stack), happeningAt},
	} {
		if pair[0] != pair[1] {
			t.Errorf("%s: %d in C, %d in Go", name, pair[0], pair[1])
		}
	}
}
