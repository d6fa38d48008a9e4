package recorder_test

import (
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/opreplay/opreplay/recorder"
	"github.com/opreplay/opreplay/traces"
)

// fullDisk is a folder with room for a megabyte.
func fullDisk(t testing.TB) string {
	t.Helper()
	dir := t.TempDir()
	if err := unix.Mount("tmpfs", dir, "tmpfs", 0, "size=1m"); err != nil {
		t.Skipf("SKIPPED: mounting a small file system takes CAP_SYS_ADMIN: %v", err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(dir, 0); err != nil {
			t.Error(err)
		}
	})
	return dir
}

// listener listens on a port of its own, or frees it again.
func listener(t testing.TB, host string, open bool) (address string) {
	t.Helper()
	l, err := net.Listen("tcp", net.JoinHostPort(host, "0"))
	if err != nil {
		t.Skipf("SKIPPED: %s can't be listened on: %v", host, err)
	}
	if !open {
		_ = l.Close()
	} else {
		t.Cleanup(func() { _ = l.Close() })
	}
	return l.Addr().String()
}

// What befalls an operator in the kernel is in its trace, with the line that brought it about; of what went well
// there is nothing.
func TestRunTellsWhatBefallsTheOperator(t *testing.T) {
	needEBPF(t)
	disk := fullDisk(t)
	d := startDoerWith(t, recorder.Options{EBPF: recorder.EBPFOn, KernelEvents: recorder.KernelEvents{
		Refused: true, Forks: true, NoSpace: true, ReadLoops: true, Hold: 2 * time.Second,
	}})
	said := func(name, do, at, want string) {
		t.Helper()
		d.orderAt(name, do, at)
		if l := await(d.recording, do+" "+at, func(l *traces.Log) bool { return strings.HasPrefix(l.Message, "befallen: ") }); !strings.Contains(l.Message, want) {
			t.Fatalf("%s %s: %s, not %s", do, at, l.Message, want)
		}
	}
	said("open4", "connect", listener(t, "127.0.0.1", true), "<nil>")
	said("open6", "connect", listener(t, "::1", true), "<nil>")
	d.order("idle", "nothing")
	await(d.recording, "the controls", func(r *traces.Reconcile) bool { return r.Name == "idle" })
	controls := time.Now().UnixNano()
	shut4, shut6 := listener(t, "127.0.0.1", false), listener(t, "::1", false)
	said("shut4", "connect", shut4, "refused")
	said("shut6", "connect", shut6, "refused")
	said("child", "start", "/bin/true", "<nil>")
	said("full", "fill", filepath.Join(disk, "file"), "no space left on device")
	stop := filepath.Join(t.TempDir(), "stop")
	d.orderAt("loop", "read", "/proc/self/exe "+stop)
	await(d.recording, "the loop", func(e *traces.KernelEvent) bool { return e.Kind == "read_loop" })
	if err := os.WriteFile(stop, nil, 0o600); err != nil {
		t.Fatal(err)
	}

	trace := d.end()
	x, lines := indexOf(t, trace), marks(t, "testdata/operator/main.go", "befall")
	found := map[string]int64{}
	for _, e := range rows[traces.KernelEvent](t, trace) {
		what := e.Kind
		if e.Kind == "refused" {
			what += " " + net.JoinHostPort(e.Address, strconv.Itoa(int(e.Port)))
		}
		found[what] += e.Count
		mark := map[string]string{"refused": "connect", "fork": "start", "enospc": "fill", "read_loop": "read"}[e.Kind]
		function, line := lineIn(x.stacks[e.StackID], "testdata/operator/main.go")
		if line != lines[mark] || function != "main.befall" || e.TS < controls || int(e.PID) != d.pid || e.TID == 0 {
			t.Errorf("%+v came from line %d of %s, not from line %d", e, line, function, lines[mark])
		}
		if file := e.Kind == "enospc" || e.Kind == "read_loop"; file != (e.FD > 2) {
			t.Errorf("%+v: file %d", e, e.FD)
		}
	}
	t.Logf("%v", found)
	if n := found["fork"]; n < 5 || n > 6 { // Go's own check of pidfds is one
		t.Errorf("%d forks", n)
	}
	if found["read_loop"] < 1000 || found["refused "+shut4] != 1 || found["refused "+shut6] != 1 || found["enospc"] != 1 || len(found) != 5 {
		t.Errorf("%v", found)
	}
	for _, l := range trace.Manifest().Losses {
		if l.Source != "stacks" { // true has ended before its own could be read
			t.Errorf("%+v", l)
		}
	}
}
