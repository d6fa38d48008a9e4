package recorder_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/opreplay/opreplay/recorder"
	"github.com/opreplay/opreplay/traces"
)

// runGuest starts Run with this test binary as the operator.
func runGuest(t *testing.T, word string, change func(*recorder.RunOptions)) (*recording, *bytes.Buffer) {
	t.Helper()
	var stderr bytes.Buffer
	r := record(t, func(ctx context.Context, o recorder.Options) (*recorder.Result, error) {
		run := recorder.RunOptions{
			Options: o, Command: []string{os.Args[0], "--config={kubeconfig}"}, Name: "guest",
			Env: []string{"RECORDER_GUEST=" + word}, Stderr: &stderr,
		}
		if change != nil {
			change(&run)
		}
		return recorder.Run(ctx, run)
	}, recorder.Options{Config: live(t).Config()})
	return r, &stderr
}

// wait is end for a recording that ends by itself.
func (r *recording) wait() *traces.Trace {
	r.t.Helper()
	select {
	case err := <-r.result:
		if err != nil {
			r.t.Fatal(err)
		}
	case <-time.After(time.Minute):
		r.t.Fatal("the recording does not end")
	}
	return open(r.t, r.out)
}

func TestRun(t *testing.T) {
	r, _ := runGuest(t, "list", nil)
	trace := r.wait()

	requests := rows[traces.Request](t, trace)
	var list *traces.Request
	for _, q := range requests {
		if q.Verb == "list" && q.Resource == "configmaps" {
			list = q
		}
		if q.Process != "guest" {
			t.Errorf("a call of %q", q.Process)
		}
	}
	if list == nil {
		t.Fatalf("the operator's list is missing: %+v", requests)
	}
	// The world came first, so that the trace knows what the operator could meet.
	world := 0
	for _, e := range rows[traces.WatchEvent](t, trace) {
		if e.Process == "oprec" && e.Type == "SYNC" && e.Seq <= list.StartSeq {
			world++
		}
	}
	if world < 50 { // the cluster roles alone are more
		t.Errorf("only %d objects were recorded before the operator's first call", world)
	}
	logs := rows[traces.Log](t, trace)
	if len(logs) != 1 || logs[0].Message != "standing by" || logs[0].Process != "guest" || logs[0].Stream != "stdout" {
		t.Errorf("logs: %+v", logs)
	}
	m := trace.Manifest()
	if m.Source != "run" || len(m.Operators) != 1 || len(m.Resources) < 30 {
		t.Fatalf("%+v", m)
	}
	op := m.Operators[0]
	binary := must[[]byte](t)(os.ReadFile(os.Args[0]))
	sum := sha256.Sum256(binary)
	if op.Process != "guest" || op.BinarySHA256 != hex.EncodeToString(sum[:]) || op.ExitCode == nil || *op.ExitCode != 0 ||
		op.ExitedByRecord || len(op.Users) != 0 || len(op.UserAgents) != 1 || !slices.Equal(op.Command, []string{os.Args[0], "--config={kubeconfig}"}) {
		t.Errorf("%+v", op)
	}
}

func TestRunOperatorFails(t *testing.T) {
	r, stderr := runGuest(t, "fail", func(o *recorder.RunOptions) { o.NoCapture = true })
	trace := r.wait()
	if r.Exit == nil || *r.Exit != 7 || r.ExitedByRecorder {
		t.Errorf("%+v", r.Result)
	}
	logs := rows[traces.Log](t, trace)
	if !slices.ContainsFunc(logs, func(l *traces.Log) bool {
		return l.Stream == "stderr" && l.Level == "error" && l.Message == "no luck" && strings.Contains(l.Fields, `"n":1`)
	}) {
		t.Errorf("logs: %+v", logs)
	}
	if got := stderr.String(); got != `{"level":"error","msg":"no luck","n":1}`+"\n" {
		t.Errorf("passed on: %q", got)
	}
}

func TestRunEnds(t *testing.T) {
	for _, c := range []struct {
		word  string
		code  int
		grace time.Duration
	}{{"wait", 0, time.Minute}, {"refuse", -1, 200 * time.Millisecond}} {
		t.Run(c.word, func(t *testing.T) {
			r, _ := runGuest(t, c.word, func(o *recorder.RunOptions) { o.NoCapture, o.Grace = true, c.grace })
			await(r, "the operator's start", func(l *traces.Log) bool { return l.Message == "standing by" })
			m := r.end().Manifest()
			op := m.Operators[0]
			if op.ExitCode == nil || *op.ExitCode != c.code || !op.ExitedByRecord || !m.Complete {
				t.Errorf("%+v", op)
			}
		})
	}
}

func TestRunDuration(t *testing.T) {
	r, _ := runGuest(t, "wait", func(o *recorder.RunOptions) { o.NoCapture, o.Duration = true, 300*time.Millisecond })
	r.wait()
	if !r.ExitedByRecorder {
		t.Errorf("%+v", r.Result)
	}
}
