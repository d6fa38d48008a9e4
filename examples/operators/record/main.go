// Command record makes the bundled traces: for each operator of the zoo a fresh etcd and kube-apiserver,
// the faulty twin under the recorder, and the user's session of package scenario.
//
//	make record              # all of them, into traces/cases
//	go run ./examples/operators/record statusrace
//	go run ./examples/operators/record --ebpf --out traces/labelled --suffix -lines statusrace
//
// With --ebpf the operator is looked at from the kernel too (Linux on amd64, as root): a trace knows the line of each call.
// Of a faulty twin, whose lines the tests look at, the main.go that they are of is kept beside it, in sources.
// Of those that are Scraped, what their metrics endpoint says is recorded too.
// Operators that only a recording shows (operators.Recorded) are not among all of them: name them.
//
// Run it in the root of a clone after `make build`: the traces name the operators by their path from there,
// bin/zoo/NAME, and no other path of the machine. A trace that is there already is replaced when the new one
// is complete.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"k8s.io/client-go/rest"

	"github.com/opreplay/opreplay/examples/operators"
	"github.com/opreplay/opreplay/examples/operators/scenario"
	"github.com/opreplay/opreplay/internal/livecluster"
	"github.com/opreplay/opreplay/recorder"
)

// sizeLimit is what a bundled trace may weigh; all of them are in every clone and in the binary of opsim.
const sizeLimit = 300 << 10

// metricsAddress is where an operator serves its metrics, of whose recording they are a part: the same at each recording.
const metricsAddress = "127.0.0.1:39464"

// startLimit is how long an operator may take until its workers run.
const startLimit = 60 * time.Second

func main() {
	out := flag.String("out", "traces/cases", "folder for the traces")
	zoo := flag.String("zoo", "bin/zoo", "folder of the operators' binaries")
	fixed := flag.Bool("fixed", false, "record the mended twins")
	suffix := flag.String("suffix", "", "end of the traces' names")
	ebpf := flag.Bool("ebpf", false, "look at the operator from the kernel")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	t := tape{zoo: *zoo, out: *out, suffix: *suffix, fixed: *fixed, ebpf: recorder.EBPFOff}
	if *ebpf {
		t.ebpf = recorder.EBPFOn
	}
	if err := t.run(ctx, flag.Args()); err != nil {
		fmt.Fprintln(os.Stderr, "record:", err)
		os.Exit(1)
	}
}

// tape is how to record.
type tape struct {
	zoo         string // folder of the binaries
	out, suffix string // a trace is OUT/NAME SUFFIX.optrace
	fixed       bool
	ebpf        recorder.EBPF
}

func (t tape) run(ctx context.Context, names []string) error {
	if len(names) == 0 {
		for _, o := range operators.Zoo() {
			names = append(names, o.Name)
		}
	}
	for _, name := range names {
		s, err := scenario.For(name)
		if err != nil {
			return err
		}
		command := []string{filepath.Join(t.zoo, name)}
		if t.fixed {
			command = append(command, "--fixed")
		}
		if err := t.record(ctx, s, command, filepath.Join(t.out, name+t.suffix+".optrace")); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	return nil
}

// record records one session on a cluster of its own and puts the trace in its place.
func (t tape) record(ctx context.Context, s scenario.Scenario, command []string, out string) error {
	cluster, err := livecluster.Up(ctx, livecluster.Options{Progress: func(format string, args ...any) {
		fmt.Fprintf(os.Stderr, format+"\n", args...)
	}})
	if err != nil {
		return err
	}
	defer cluster.Stop()
	if err := s.Install(ctx, cluster.Config()); err != nil {
		return err
	}
	fresh := out + ".new"
	if err := os.RemoveAll(fresh); err != nil {
		return err
	}
	result, err := t.session(ctx, s, cluster.Config(), command, fresh)
	if err != nil {
		return err
	}
	size, err := folderSize(fresh)
	if err != nil {
		return err
	}
	fmt.Printf("%s: %d events, %d requests, %d log lines, %d kB\n",
		out, result.Events, result.Requests, result.Logs, size>>10)
	if result.Losses > 0 {
		return fmt.Errorf("the trace lacks something: see losses in %s/manifest.json", fresh)
	}
	if size > sizeLimit {
		return fmt.Errorf("%s is %d kB; a bundled trace may have %d", fresh, size>>10, sizeLimit>>10)
	}
	if err := os.RemoveAll(out); err != nil {
		return err
	}
	if err := os.Rename(fresh, out); err != nil || t.ebpf == recorder.EBPFOff || t.fixed {
		return err
	}
	return keepSource(s.Name, filepath.Join(filepath.Dir(out), "sources"))
}

// keepSource copies an operator's main.go, whose lines a trace has, into a folder.
func keepSource(name, folder string) error {
	source, err := os.ReadFile(filepath.Join("examples", "operators", name, "main.go"))
	if err != nil {
		return err
	}
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(folder, name+".go.txt"), source, 0o644)
}

// session runs the operator under the recorder while the user plays.
func (t tape) session(ctx context.Context, s scenario.Scenario, config *rest.Config, command []string, out string) (*recorder.Result, error) {
	var scrape recorder.Scrape
	if s.Scraped {
		command = append(command, "--metrics-bind-address="+metricsAddress)
		scrape = recorder.Scrape{URLs: []string{"http://" + metricsAddress + "/metrics"}, Interval: time.Second}
	}
	recording, end := context.WithCancel(ctx)
	defer end()
	working := &lookout{phrase: "Starting workers", seen: make(chan struct{})}
	var result *recorder.Result
	var failed error
	done := make(chan struct{})
	go func() {
		defer close(done)
		result, failed = recorder.Run(recording, recorder.RunOptions{
			Options: recorder.Options{
				Out: out, Config: config, Tool: "opreplay examples/operators/record",
				// The API server's own Lease is labelled with the host's name.
				Exclude: []string{"leases.coordination.k8s.io"},
				Scrape:  scrape,
				EBPF:    t.ebpf, KernelEvents: recorder.KernelEvents{Refused: t.ebpf == recorder.EBPFOn},
			},
			Command: command, Stdout: working, Stderr: working,
		})
	}()
	err := working.wait(ctx, done)
	if err == nil {
		err = s.Play(ctx, config)
	}
	end()
	<-done
	return result, errors.Join(err, failed)
}

// lookout is a writer that waits for a phrase in what an operator prints.
type lookout struct {
	phrase string
	mu     sync.Mutex
	tail   string
	once   sync.Once
	seen   chan struct{}
}

func (l *lookout) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.tail += string(p)
	if strings.Contains(l.tail, l.phrase) {
		l.once.Do(func() { close(l.seen) })
	}
	l.tail = l.tail[max(0, len(l.tail)-1024):]
	return len(p), nil
}

func (l *lookout) wait(ctx context.Context, done <-chan struct{}) error {
	select {
	case <-l.seen:
		return nil
	case <-done:
		return errors.New("the operator ended before its workers ran")
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(startLimit):
		return fmt.Errorf("the operator did not print %q within %v", l.phrase, startLimit)
	}
}

func folderSize(dir string) (int64, error) {
	var size int64
	entries, err := os.ReadDir(dir)
	for _, e := range entries {
		info, err := e.Info()
		if err != nil {
			return 0, err
		}
		size += info.Size()
	}
	return size, err
}
