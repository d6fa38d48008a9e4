package virtual

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

const runs = 20

// guest returns a function that runs a guest to its end, for at most an hour of virtual time.
func guest(opt Options, name string, args []string, change ...func(*Spec)) func(t *testing.T) result {
	return func(t *testing.T) result {
		w := newWorld(t, opt)
		p := w.start(name, args, change...)
		w.run(time.Hour, exited(p))
		if st, ok := p.Exited(); !ok || st.Code != 0 {
			t.Errorf("ended %v %+v; output:\n%s", ok, st, w.out.String())
		}
		return w.result()
	}
}

func contains(t *testing.T, out string, want ...string) {
	t.Helper()
	for _, s := range want {
		if !strings.Contains(out, s) {
			t.Errorf("no %q in:\n%s", s, out)
		}
	}
}

// differs demands that another seed gives another run.
func differs(t *testing.T, one result, f func(t *testing.T) result) {
	t.Helper()
	if other := f(t); other == one {
		t.Error("another seed gave the same run")
	}
}

func procs(n int) func(*Spec) {
	return func(s *Spec) {
		s.Env = append([]string{fmt.Sprintf("GOMAXPROCS=%d", n)}, GoEnv()[1:]...)
	}
}

func TestTimers(t *testing.T) {
	one := same(t, runs, guest(Options{Seed: 1}, "timers", nil))
	contains(t, one.out, "slept 10m0s, now 2026-01-01 00:10:00")
	differs(t, one, guest(Options{Seed: 2}, "timers", nil))
	for _, n := range []int{2, 4} {
		same(t, runs/2, guest(Options{Seed: 1}, "timers", nil, procs(n)))
	}
}

// A Go program that waits for a tick stops once for it: its monitor thread sleeps on, and its polls need no stop.
func TestIdleStops(t *testing.T) {
	w := newWorld(t, Options{Seed: 1})
	p := w.start("idle", []string{"10m"})
	w.run(time.Hour, exited(p))
	const ticks = 10 * 60 * 2
	if st := w.s.Stats(); st.Traps < ticks || st.Traps > ticks*3/2 {
		t.Errorf("%d stops for %d ticks: %v", st.Traps, ticks, st.Syscalls)
	}
}

func TestSeededPicker(t *testing.T) {
	run := func(seed uint64) func(t *testing.T) result {
		return func(t *testing.T) result {
			return guest(Options{Seed: 1, Picker: NewSeeded(seed)}, "timers", nil, procs(4))(t)
		}
	}
	one := same(t, runs/2, run(1))
	differs(t, one, run(2))
}

func TestClient(t *testing.T) {
	args := []string{"http://10.0.0.1:80"}
	one := same(t, runs, guest(Options{Seed: 1}, "client", args))
	contains(t, one.out, "done done done", "deadline exceeded 1s", "refused")
	differs(t, one, guest(Options{Seed: 2}, "client", args))
	same(t, runs/2, guest(Options{Seed: 1}, "client", args, procs(4)))
}

func TestClientIPv6(t *testing.T) {
	one := same(t, 3, guest(Options{Seed: 1}, "client", []string{"http://[2001:db8::1]:80"}))
	contains(t, one.out, "done done done")
}

// get makes a request to a process and appends what comes back to the world's output.
func (w *world) get(p *Process, addr string, n int) {
	st, err := w.s.Dial(p, netip.MustParseAddrPort(addr), netip.MustParseAddrPort("10.9.9.9:4711"))
	if err != nil {
		fmt.Fprintln(&w.out, err)
		return
	}
	fmt.Fprintf(st, "GET /%d HTTP/1.0\r\nHost: pod-%d\r\n\r\n", n, n)
	at := w.s.Now()
	w.at(200*time.Millisecond, func() {
		var b [4096]byte
		k, _ := st.Read(b[:])
		_, err := st.Read(b[k:])
		_, body, _ := bytes.Cut(b[:k], []byte("\r\n\r\n"))
		fmt.Fprintf(&w.out, "%v answers %s, end %v, asked at %v\n", st.Process().Spec().Name, body, errors.Is(err, io.EOF), at.Sub(defaultStart).Round(time.Millisecond))
		st.Close()
	})
}

// TestServers has two processes that listen on the same port, and stops both: one gracefully, one at once.
func TestServers(t *testing.T) {
	one := same(t, runs, func(t *testing.T) result {
		w := newWorld(t, Options{Seed: 1})
		a := w.start("server", []string{":8080"}, func(s *Spec) { s.Name = "a" })
		b := w.start("server", []string{"0.0.0.0:8080"}, func(s *Spec) { s.Name = "b" })
		for i := range 10 {
			w.at(time.Duration(i)*time.Second, func() { w.get(a, "10.0.0.7:8080", i) })
			w.at(time.Duration(i)*time.Second, func() { w.get(b, "10.0.0.8:8080", i) })
		}
		w.at(20*time.Second, func() { w.get(a, "10.0.0.7:81", 0) })
		w.at(30*time.Second, func() {
			if err := a.Signal(syscall.SIGTERM); err != nil {
				t.Error(err)
			}
		})
		w.at(40*time.Second, b.Kill)
		w.run(time.Minute, exited(a, b))
		for _, p := range []*Process{a, b} {
			st, ok := p.Exited()
			fmt.Fprintln(&w.out, p.Spec().Name, ok, st.Code, st.Signal, st.At.Sub(defaultStart).Round(time.Millisecond), w.listen)
		}
		return w.result()
	})
	contains(t, one.out, "listening on [::]:8080", "a answers hello 10.9.9.9:4711 at pod-9", "b answers hello", "refused",
		"stopped", "a true 0 0 33", "b true -1 9 40s", "not a [::]:8080")
}

func TestPauseKillRestart(t *testing.T) {
	one := same(t, 5, func(t *testing.T) result {
		w := newWorld(t, Options{Seed: 1})
		a := w.start("timers", nil)
		w.at(time.Minute, a.Pause)
		w.at(time.Hour, a.Resume)
		w.run(3*time.Hour, exited(a))
		first := w.start("timers", nil)
		w.at(time.Minute, first.Kill)
		w.run(time.Hour, exited(first))
		again := w.start("timers", nil, func(s *Spec) { s.Incarnation = 1 })
		w.run(time.Hour, exited(again))
		return w.result()
	})
	contains(t, one.out, "slept 1h4m45s", "slept 10m0s")
	lines := strings.Split(one.out, "random ")
	if len(lines) != 3 || lines[1][:16] == lines[2][:16] {
		t.Errorf("the restarted process has the same randomness:\n%s", one.out)
	}
}

func TestInCluster(t *testing.T) {
	one := same(t, 5, guest(Options{Seed: 1, CPUs: 3}, "incluster", nil, func(s *Spec) {
		s.Files = map[string][]byte{
			"/var/run/secrets/kubernetes.io/serviceaccount/token":     []byte("a token"),
			"/var/run/secrets/kubernetes.io/serviceaccount/ca.crt":    []byte("a certificate"),
			"/var/run/secrets/kubernetes.io/serviceaccount/namespace": []byte("default"),
			"/etc/hosts": []byte("10.0.0.1 api.example\n"),
		}
		s.Hidden = []string{"/etc/passwd"}
		s.Hostname = "operator-0"
	}))
	contains(t, one.out, `token: -r--r--r-- 7 2026-01-01 00:00:00 "a token" <nil>`, "true <nil>", "other: no such file", "read-only file system",
		"/etc/passwd: no such file", "operator-0 1 0 65532", " 3\n", "[10.0.0.1] <nil>", `"incluster\n"`)
}

func TestDescriptors(t *testing.T) {
	one := same(t, runs, guest(Options{Seed: 1}, "fds", nil, func(s *Spec) { s.IP = netip.MustParseAddr("10.1.2.3") }))
	contains(t, one.out, "49 10.1.2.3:", "10.0.0.1:80 40 <nil>", "[::1]:", "dup <nil>", "through a copy", "end")
}

func TestChildren(t *testing.T) {
	one := same(t, runs, guest(Options{Seed: 1}, "exec", nil))
	contains(t, one.out, `"one\ntwo\nthree\n" exit status 4 1m45`, "signal: killed 10", "300000 <nil>", "no such file", "to stdout", "to stderr", "left behind")
}

func TestShellSleeps(t *testing.T) {
	start := time.Now()
	one := same(t, 5, guest(Options{Seed: 1}, "/bin/sh", []string{"-c", "sleep 1000; date -u +%s"}))
	contains(t, one.out, "1767226600\n")
	if d := time.Since(start); d > 30*time.Second {
		t.Errorf("5 times 1000 s took %v", d)
	}
}

// TestOrphans has the first process wait for a process that its dead child has left.
func TestOrphans(t *testing.T) {
	if _, err := os.Stat("/usr/bin/perl"); err != nil {
		t.Skip("SKIPPED: needs /usr/bin/perl")
	}
	one := same(t, 5, guest(Options{Seed: 1}, "/usr/bin/perl", []string{"-e", `
		$| = 1;
		if (!fork()) { if (!fork()) { sleep 5; print "orphan of ", getppid(), "\n"; exit 7 } sleep 1; exit 3 }
		for (1..2) { wait(); print $? >> 8, " ended\n" }
		print wait(), "\n"`}))
	contains(t, one.out, "] 3 ended", "orphan of 1", "7 ended", "-1\n")
}

// buildCgo builds the cgo guest, dynamically linked, or skips.
func buildCgo(t *testing.T) string {
	if _, err := exec.LookPath("gcc"); err != nil {
		t.Skip("SKIPPED: the cgo guest needs a C compiler, and there is no gcc on the PATH")
	}
	path := filepath.Join(guests, "cgo")
	cmd := exec.CommandContext(t.Context(), "go", "build", "-trimpath", "-o", path, "./testdata/cgo")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=1")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return path
}

func TestCgo(t *testing.T) {
	path := buildCgo(t)
	one := same(t, runs, guest(Options{Seed: 1}, path, nil))
	contains(t, one.out, "cpu 0 res 1 since boot 1767224600 equal 1 1 micros 1")
	contains(t, one.out, "turn 80 write 300000 read 300000 timedwait 110 timerfd 5 poll 0 1 alarm 1 left 93", "took 1m45s")
	differs(t, one, guest(Options{Seed: 2}, path, nil))
}

// TestC runs a C program, linked both ways, that ends by abort.
func TestC(t *testing.T) {
	if _, err := exec.LookPath("gcc"); err != nil {
		t.Skip("SKIPPED: the C guest needs a C compiler, and there is no gcc on the PATH")
	}
	for _, link := range []string{"-static", "-no-pie", "-pie"} {
		path := filepath.Join(guests, "guest"+link)
		if out, err := exec.CommandContext(t.Context(), "gcc", "-O1", link, "-o", path, "testdata/c/guest.c", "-lpthread", "-lrt").CombinedOutput(); err != nil {
			if link == "-static" {
				t.Logf("SKIPPED: no static C library: %s", out)
				continue
			}
			t.Fatalf("%v\n%s", err, out)
		}
		one := same(t, runs/2, func(t *testing.T) result {
			w := newWorld(t, Options{Seed: 1})
			p := w.start(path, nil, func(s *Spec) { s.Name = "c" })
			w.run(time.Hour, exited(p))
			if st, ok := p.Exited(); !ok || st.Signal != int(syscall.SIGABRT) {
				t.Errorf("%v %+v, want the end by SIGABRT", ok, st)
			}
			return w.result()
		})
		contains(t, one.out, "2.000 sigwait got 12", "4.000 pause, hits 1", "6.000 sigtimedwait -1 1", "15.000 sigsuspend, hits 4", "18.000 nanosleep -1 rem 7.0",
			"timer threads 1", "30.000 semaphore, child 5", "39.000 sem_timedwait 1", "40 polled 1", "select 1 0 0", "unix 2 0")
	}
}

// TestCollector has garbage collection and preemption by signals, on several threads.
func TestCollector(t *testing.T) {
	for _, n := range []int{1, 4} {
		one := same(t, runs/2, guest(Options{Seed: 1}, "gc", nil, func(s *Spec) {
			s.Env = []string{fmt.Sprintf("GOMAXPROCS=%d", n), "PATH=/bin"}
		}))
		contains(t, one.out, "collections")
	}
}

func TestPython(t *testing.T) {
	python := "/usr/bin/python3"
	if _, err := os.Stat(python); err != nil {
		if python, err = exec.LookPath("python3"); err != nil {
			t.Skip("SKIPPED: the Python guest needs python3, and there is none on the PATH")
		}
		out, err := exec.CommandContext(t.Context(), python, "-c", "import sys; print(sys.executable)").Output()
		if err != nil {
			t.Skip("SKIPPED: python3 does not run: " + err.Error())
		}
		python = strings.TrimSpace(string(out))
	}
	script, _ := filepath.Abs("testdata/python/guest.py")
	run := func(seed uint64) func(t *testing.T) result {
		return guest(Options{Seed: seed}, python, []string{"-S", "-B", script}, func(s *Spec) {
			s.Env = append(GoEnv(), "PYTHONDONTWRITEBYTECODE=1")
		})
	}
	one := same(t, runs/2, run(1))
	contains(t, one.out, "returncode=3, stdout=b'child\\n'", "2026-01-01", "took True")
	differs(t, one, run(2))
}

func TestSpin(t *testing.T) {
	w := newWorld(t, Options{Seed: 1, SpinLimit: 100 * time.Millisecond})
	p := w.start("spin", nil, procs(2))
	w.run(time.Minute, exited(p))
	st := w.s.Stats()
	if st.Deterministic || !strings.Contains(fmt.Sprint(st.Reasons), "spin computes for more than 100ms") {
		t.Errorf("reasons: %q", st.Reasons)
	}
	contains(t, w.out.String(), "seen")
}

// TestBetweenProcesses joins two processes through the world, which takes 3 ms for each piece.
func TestBetweenProcesses(t *testing.T) {
	one := same(t, 5, func(t *testing.T) result {
		pipe := &pipes{peer: map[*Stream]*Stream{}}
		w := newWorld(t, Options{Seed: 1, Network: pipe})
		pipe.w = w
		server := w.start("server", []string{":8080"})
		pipe.server = server
		w.between = pipe.pump
		client := w.start("client", []string{"http://10.0.0.2:8080"})
		w.run(time.Hour, exited(client))
		return w.result()
	})
	contains(t, one.out, "deadline exceeded 1s", "done done done")
}

// pipes is a network in which all connections lead to one process.
type pipes struct {
	w      *world
	server *Process
	peer   map[*Stream]*Stream
}

func (n *pipes) Listen(*Process, netip.AddrPort)   {}
func (n *pipes) Unlisten(*Process, netip.AddrPort) {}

func (n *pipes) Connect(_ *Process, _ string, addr netip.AddrPort, st *Stream) error {
	other, err := n.w.s.Dial(n.server, addr, st.Local())
	if err != nil {
		return err
	}
	n.peer[st], n.peer[other] = other, st
	return nil
}

func (n *pipes) pump(st *Stream) {
	other := n.peer[st]
	b := make([]byte, 64<<10)
	k, err := st.Read(b)
	n.w.at(3*time.Millisecond, func() {
		if k > 0 {
			n.write(other, b[:k])
		}
		if errors.Is(err, io.EOF) {
			_ = other.CloseWrite() // it may have closed too
		}
	})
}

// write writes all of b, in as many steps as it takes.
func (n *pipes) write(st *Stream, b []byte) {
	k, err := st.Write(b)
	if err == nil && k < len(b) {
		n.w.at(time.Millisecond, func() { n.write(st, b[k:]) })
	}
}

// TestUnderLoad demands the same run beside CPU burners, and with other settings of the supervisor's own runtime.
func TestUnderLoad(t *testing.T) {
	run := guest(Options{Seed: 1}, "fds", nil, procs(2))
	quiet := run(t)
	stop := make(chan struct{})
	defer close(stop)
	for range 2 {
		cmd := exec.CommandContext(t.Context(), "/bin/sh", "-c", "while :; do :; done")
		cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		defer func() {
			_ = cmd.Process.Kill()
			_ = cmd.Wait() // "signal: killed"
		}()
		go func() {
			for n := 0; ; n++ {
				select {
				case <-stop:
					return
				default:
				}
				_ = make([]byte, 1<<16) // the collector stops the world
			}
		}()
	}
	for _, n := range []int{1, 4} {
		defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(n))
		if loaded := run(t); loaded != quiet {
			t.Fatalf("with GOMAXPROCS=%d under load:\n%s\nwithout:\n%s", n, loaded.out, quiet.out)
		}
	}
}

func TestProbe(t *testing.T) {
	if err := Probe(); err != nil {
		t.Fatal(err)
	}
}

func TestStartErrors(t *testing.T) {
	w := newWorld(t, Options{})
	for path, want := range map[string]string{
		"/does/not/exist": "start /does/not/exist: no such file or directory",
		"/etc/passwd":     "start /etc/passwd: permission denied",
		"":                "virtual: a process needs a Name and a Path",
	} {
		if _, err := w.s.Start(Spec{Name: "x", Path: path}); err == nil || err.Error() != want {
			t.Errorf("%q: %v", path, err)
		}
	}
	if _, err := New(Options{Tick: time.Second}); err == nil {
		t.Error("a tick of a second was accepted")
	}
}

// helper runs this test's program again in one of the modes of helperMain, with its standard output as a pipe.
func helper(mode string) *exec.Cmd {
	cmd := exec.Command(filepath.Join(guests, "self"))
	cmd.Env = append(os.Environ(), "VIRTUAL_TEST_MODE="+mode, "VIRTUAL_TEST_GUESTS="+guests)
	cmd.Stderr = os.Stderr
	return cmd
}

// TestUnprivileged demands that nobody, without capabilities, gets the very same run as we do.
func TestUnprivileged(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("SKIPPED: only root can become another user (running without privileges already)")
	}
	run := func(cred *syscall.Credential) string {
		cmd := helper("hash")
		if cred != nil {
			cmd.SysProcAttr = &syscall.SysProcAttr{Credential: cred}
		}
		out, err := cmd.Output()
		if err != nil {
			t.Fatal(err)
		}
		return string(out)
	}
	nobody := run(&syscall.Credential{Uid: 65534, Gid: 65534})
	if !strings.Contains(nobody, "CapEff:\t0000000000000000") || !strings.Contains(nobody, "uid 65534") {
		t.Fatalf("still privileged: %s", nobody)
	}
	root := run(nil)
	if a, b := hashOf(nobody), hashOf(root); a != b || a == "" {
		t.Errorf("as nobody: %s\nas root: %s", nobody, root)
	}
}

func hashOf(out string) string {
	_, h, _ := strings.Cut(out, "hash ")
	return h
}

// TestSupervisorKilled demands that kill -9 of a supervisor leaves none of its processes behind, children of
// children included.
func TestSupervisorKilled(t *testing.T) {
	cmd := helper("victim")
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	var fds []int
	for _, f := range strings.Fields(line) {
		var pid int
		_, _ = fmt.Sscan(f, &pid) // 0 is no process
		fd, err := unix.PidfdOpen(pid, 0)
		if err != nil {
			t.Fatal(pid, err)
		}
		fds = append(fds, fd)
	}
	if len(fds) < 3 {
		t.Fatalf("processes: %s", line)
	}
	_ = cmd.Process.Kill()
	_ = cmd.Wait() // "signal: killed"
	for i, fd := range fds {
		if !pollFor(fd, 10_000) {
			t.Errorf("process %d of %s is still there", i, line)
		}
		unix.Close(fd)
	}
}
