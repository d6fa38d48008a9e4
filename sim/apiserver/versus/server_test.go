package versus

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"runtime/pprof"
	"strconv"
	"strings"
	"testing"
	"time"

	"k8s.io/client-go/rest"

	"github.com/opreplay/opreplay/internal/livecluster"
	"github.com/opreplay/opreplay/sim/apiserver"
)

// server is one of the two, ready to be measured.
type server struct {
	name    string
	config  *rest.Config
	pids    []int
	started time.Duration // from nothing to answering
}

// serveEnv has the test binary be our server.
const serveEnv = "VERSUS_SERVE"

// profileEnv names a file for a CPU profile of our server.
const profileEnv = "VERSUS_PROFILE"

func TestMain(m *testing.M) {
	if os.Getenv(serveEnv) != "" {
		if err := serve(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

// serve is our server's process: it prints its address, and ends when its standard input does.
func serve() error {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	s, err := apiserver.New(ctx, apiserver.Options{})
	if err != nil {
		return err
	}
	defer s.Close()
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	if name := os.Getenv(profileEnv); name != "" {
		f, err := os.Create(name)
		if err != nil {
			return err
		}
		defer f.Close()
		if err := pprof.StartCPUProfile(f); err != nil {
			return err
		}
		defer pprof.StopCPUProfile()
	}
	fmt.Println(l.Addr())
	go func() {
		_, _ = os.Stdin.Read(make([]byte, 1)) // never anything but the end
		l.Close()
	}()
	_ = http.Serve(l, s.Handler()) // until the listener closes
	return nil
}

// ours starts our server.
func ours(b testing.TB) *server {
	b.Helper()
	begin := time.Now()
	cmd := exec.CommandContext(b.Context(), os.Args[0])
	cmd.Env = append(os.Environ(), serveEnv+"=1")
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		b.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		b.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { in.Close(); _ = cmd.Wait() })
	var addr string
	if _, err := fmt.Fscanln(out, &addr); err != nil {
		b.Fatalf("our server does not start: %v", err)
	}
	return &server{
		name: "ours", pids: []int{cmd.Process.Pid}, started: time.Since(begin),
		config: &rest.Config{Host: "http://" + addr, QPS: -1},
	}
}

// theirs starts etcd and kube-apiserver.
func theirs(b testing.TB) *server {
	b.Helper()
	if _, err := livecluster.Binaries(b.Context(), nil, livecluster.Etcd, livecluster.APIServer); err != nil {
		b.Fatal(err) // built before the clock starts
	}
	begin := time.Now()
	c, err := livecluster.Up(b.Context(), livecluster.Options{})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(c.Stop)
	s := &server{name: "real", config: c.Config(), started: time.Since(begin)}
	for _, pid := range c.PIDs() {
		s.pids = append(s.pids, pid)
	}
	return s
}

// cpu is the CPU time that the server has used, user and system.
func (s *server) cpu(b testing.TB) time.Duration {
	var ticks int64
	for _, pid := range s.pids {
		text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		if err != nil {
			b.Fatal(err)
		}
		// The name, in parentheses, may hold anything; utime and stime are fields 14 and 15 of proc(5).
		fields := strings.Fields(string(text[strings.LastIndexByte(string(text), ')')+1:]))
		for _, f := range fields[11:13] {
			n, err := strconv.ParseInt(f, 10, 64)
			if err != nil {
				b.Fatal(err)
			}
			ticks += n
		}
	}
	return time.Duration(ticks) * (time.Second / 100) // USER_HZ, the same on every architecture
}

// memory is the resident memory of the server in MiB.
func (s *server) memory(b testing.TB) float64 {
	kb := 0.0
	for _, pid := range s.pids {
		text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
		if err != nil {
			b.Fatal(err)
		}
		_, rest, _ := strings.Cut(string(text), "VmRSS:")
		n := 0.0
		if _, err := fmt.Sscan(rest, &n); err != nil {
			b.Fatalf("VmRSS: %v", err)
		}
		kb += n
	}
	return kb / 1024
}
