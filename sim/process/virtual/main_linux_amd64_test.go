package virtual

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// guests is where TestMain puts the programs of testdata.
var guests string

func TestMain(m *testing.M) {
	Shim()
	if mode := os.Getenv("VIRTUAL_TEST_MODE"); mode != "" {
		guests = os.Getenv("VIRTUAL_TEST_GUESTS")
		helperMain(mode)
	}
	dir, err := os.MkdirTemp("", "guests")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	if err := os.Chmod(dir, 0o755); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	guests = dir
	cmd := exec.CommandContext(context.Background(), "go", "build", "-trimpath", "-o", dir+"/", "./testdata/...")
	cmd.Args = append(cmd.Args[:len(cmd.Args)-1], guestPackages()...)
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOFLAGS=-trimpath")
	if out, err := cmd.CombinedOutput(); err != nil {
		fmt.Fprintf(os.Stderr, "building guests: %v\n%s", err, out)
		os.Exit(1)
	}
	if err := copySelf(filepath.Join(dir, "self")); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	code := m.Run()
	os.RemoveAll(dir)
	os.Exit(code)
}

// copySelf puts this program where another user can run it.
func copySelf(to string) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	b, err := os.ReadFile(self)
	if err != nil {
		return err
	}
	return os.WriteFile(to, b, 0o755)
}

// helperMain is what this program does when a test starts it again.
func helperMain(mode string) {
	check := func(err error) {
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	}
	switch mode {
	case "hash": // say who we are and what the run of two guests was
		status, _ := os.ReadFile("/proc/self/status")
		for line := range strings.Lines(string(status)) {
			if strings.HasPrefix(line, "CapEff") {
				fmt.Print(line)
			}
		}
		fmt.Println("uid", os.Getuid())
		t := &helperT{}
		for _, args := range [][]string{{"client", "http://10.0.0.1:80"}, {"exec"}} {
			w := newWorld(t, Options{Seed: 1})
			p := w.start(args[0], args[1:])
			w.run(time.Hour, exited(p))
			r := w.result()
			fmt.Println("hash", r.hash, r.out)
		}
		t.end()
	case "victim": // print the numbers of the processes, and wait to be killed
		s, err := New(Options{})
		check(err)
		p, err := s.Start(Spec{Name: "sh", Path: "/bin/sh", Args: []string{"sh", "-c", "sleep 1000 & sleep 1000 & sleep 1000"}, Env: GoEnv()})
		check(err)
		check(s.RunUntilIdle(context.Background()))
		for _, c := range p.family {
			fmt.Print(c.pid, " ")
		}
		fmt.Println()
		for {
			time.Sleep(time.Hour)
		}
	}
	os.Exit(0)
}

// helperT is a testing.TB outside of a test.
type helperT struct {
	testing.TB
	cleanup []func()
}

func (t *helperT) Helper()          {}
func (t *helperT) Name() string     { return "helper" }
func (t *helperT) Cleanup(f func()) { t.cleanup = append(t.cleanup, f) }
func (t *helperT) Error(a ...any)   { t.Fatal(a...) }
func (t *helperT) Fatal(a ...any) {
	fmt.Fprintln(os.Stderr, a...)
	os.Exit(1)
}
func (t *helperT) Errorf(f string, a ...any) { t.Fatal(fmt.Sprintf(f, a...)) }
func (t *helperT) Fatalf(f string, a ...any) { t.Fatal(fmt.Sprintf(f, a...)) }
func (t *helperT) end() {
	for _, f := range t.cleanup {
		f()
	}
}

func guestPackages() (pkgs []string) {
	files, _ := filepath.Glob("testdata/*/main.go")
	for _, f := range files {
		if !strings.Contains(f, "cgo") {
			pkgs = append(pkgs, "./"+filepath.Dir(f))
		}
	}
	return pkgs
}

// traplogs counts the logs that were written to the folder VIRTUAL_TRAPLOG, to compare runs that differ.
var traplogs int

// world is a supervisor with a network that echoes, driven until its processes end.
type world struct {
	t      testing.TB
	s      *Supervisor
	conns  map[*Stream]*echo
	agenda []step
	out    bytes.Buffer
	listen []string
	// between, if set, handles what arrives instead of the echo
	between func(st *Stream)
}

type step struct {
	at time.Time
	f  func()
}

// echo is a synchronous HTTP server on one stream: it answers a request's body, 2 ms of virtual time later.
type echo struct {
	in, out []byte
}

func newWorld(t testing.TB, opt Options) *world {
	t.Helper()
	w := &world{t: t, conns: map[*Stream]*echo{}}
	if opt.Network == nil {
		opt.Network = w
	}
	opt.TrapHash = true
	if dir := os.Getenv("VIRTUAL_TRAPLOG"); dir != "" && opt.TrapLog == nil {
		traplogs++
		if f, err := os.Create(filepath.Join(dir, fmt.Sprintf("%s-%03d.log", strings.ReplaceAll(t.Name(), "/", "_"), traplogs))); err == nil {
			opt.TrapLog = f
			t.Cleanup(func() { f.Close() })
		}
	}
	s, err := New(opt)
	if err != nil {
		t.Fatal(err)
	}
	w.s = s
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return w
}

func (w *world) Connect(p *Process, network string, addr netip.AddrPort, st *Stream) error {
	if network != "tcp" || addr.Port() != 80 {
		return syscall.ECONNREFUSED
	}
	w.conns[st] = &echo{}
	return nil
}

func (w *world) Listen(p *Process, addr netip.AddrPort) {
	w.listen = append(w.listen, fmt.Sprint(p.Spec().Name, " ", addr))
}

func (w *world) Unlisten(p *Process, addr netip.AddrPort) {
	w.listen = append(w.listen, fmt.Sprint("not ", p.Spec().Name, " ", addr))
}

// start starts a guest that writes to w.out.
func (w *world) start(name string, args []string, change ...func(*Spec)) *Process {
	w.t.Helper()
	path := name
	if !filepath.IsAbs(name) {
		path = filepath.Join(guests, name)
	}
	write := func(p []byte, at time.Time) {
		fmt.Fprintf(&w.out, "[%v] %s", at.Sub(defaultStart), p)
	}
	spec := Spec{Name: name, Path: path, Args: append([]string{name}, args...), Env: GoEnv(), Dir: "/", Stdout: write, Stderr: write}
	for _, f := range change {
		f(&spec)
	}
	p, err := w.s.Start(spec)
	if err != nil {
		w.t.Fatal(err)
	}
	return p
}

func (w *world) at(d time.Duration, f func()) {
	w.agenda = append(w.agenda, step{w.s.Now().Add(d), f})
}

// run drives the world for at most limit of virtual time, until done.
func (w *world) run(limit time.Duration, done func() bool) {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 60*time.Second)
	defer cancel()
	end := w.s.Now().Add(limit)
	for {
		if err := w.s.RunUntilIdle(ctx); err != nil {
			w.t.Fatalf("%v; output so far:\n%s\n%+v", err, w.out.String(), w.s.Stats())
		}
		if done() {
			return
		}
		if w.pump() || w.due() {
			continue
		}
		next, ok := w.s.NextDeadline()
		for _, e := range w.agenda {
			if !ok || e.at.Before(next) {
				next, ok = e.at, true
			}
		}
		if !ok {
			w.t.Fatalf("nothing will ever happen; output so far:\n%s\n%+v", w.out.String(), w.s.Stats())
		}
		if next.After(end) {
			w.s.AdvanceTo(end)
			return
		}
		w.s.AdvanceTo(next)
	}
}

func (w *world) due() bool {
	for i, e := range w.agenda {
		if !e.at.After(w.s.Now()) {
			w.agenda = append(w.agenda[:i], w.agenda[i+1:]...)
			e.f()
			return true
		}
	}
	return false
}

// pump reads what came and answers whole requests.
func (w *world) pump() bool {
	moved := false
	var buf [64 << 10]byte
	for _, st := range w.s.Ready() {
		if w.between != nil {
			w.between(st)
			moved = true
			continue
		}
		e := w.conns[st]
		if e == nil {
			continue
		}
		moved = true
		for {
			n, err := st.Read(buf[:])
			e.in = append(e.in, buf[:n]...)
			if errors.Is(err, io.EOF) {
				st.Close()
				delete(w.conns, st)
			}
			if n == 0 {
				break
			}
		}
		w.flush(st, e)
		w.answer(st, e)
	}
	return moved
}

func (w *world) answer(st *Stream, e *echo) {
	r := bytes.NewReader(e.in)
	br := bufio.NewReader(r)
	req, err := http.ReadRequest(br)
	if err != nil {
		return
	}
	body, err := io.ReadAll(req.Body)
	if err != nil || req.URL.Path == "/silent" {
		return
	}
	e.in = append([]byte(nil), e.in[len(e.in)-r.Len()-br.Buffered():]...)
	w.at(2*time.Millisecond, func() {
		e.out = fmt.Appendf(e.out, "HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s", len(body), body)
		w.flush(st, e)
	})
}

func (w *world) flush(st *Stream, e *echo) {
	for len(e.out) > 0 {
		n, err := st.Write(e.out)
		e.out = e.out[n:]
		if n == 0 || err != nil {
			return
		}
	}
}

func exited(ps ...*Process) func() bool {
	return func() bool {
		for _, p := range ps {
			if _, ok := p.Exited(); !ok {
				return false
			}
		}
		return true
	}
}

// result is what must be the same in two runs.
type result struct{ out, hash string }

func (w *world) result() result {
	st := w.s.Stats()
	if !st.Deterministic {
		w.t.Errorf("not deterministic: %v", st.Reasons)
	}
	return result{w.out.String(), st.TrapHash}
}

// same runs f n times and demands the same each time; it returns what it was.
func same(t *testing.T, n int, f func(t *testing.T) result) result {
	t.Helper()
	first := f(t)
	for i := 1; i < n && !t.Failed(); i++ {
		if r := f(t); r != first {
			t.Fatalf("run %d differs:\n%s\n%s\nfirst:\n%s\n%s", i+1, r.hash, r.out, first.hash, first.out)
		}
	}
	return first
}
