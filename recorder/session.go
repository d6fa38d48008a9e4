package recorder

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/opreplay/opreplay/internal/apicall"
	"github.com/opreplay/opreplay/internal/cli"
	"github.com/opreplay/opreplay/recorder/live"
	"github.com/opreplay/opreplay/traces"
)

// session is one trace being recorded, whatever its sources. It is the Appender that they write to.
type session struct {
	o       *Options
	cluster *cluster
	w       *traces.Writer
	redact  apicall.Redactor
	join    *joiner      // nil where nothing is seen from the kernel; set before any source begins
	last    atomic.Int64 // the highest Seq given, where there is a joiner: it gives them ahead of rows
	// ctx ends with the caller's, with the duration, or with a trace that takes no more.
	ctx    context.Context
	cancel context.CancelCauseFunc
	stop   context.CancelFunc // of the duration

	// begun is set when the sources have: from then on a trace is kept, whatever is in it.
	begun atomic.Bool

	events, requests, logs, bytes, lost atomic.Int64
	reconciles, samples, scraped        atomic.Int64

	news    atomic.Bool // of processes, that the manifest has not
	keeping sync.WaitGroup

	capturing atomic.Pointer[capture] // nil until the first lists are asked for

	metrics *live.Metrics // nil where nobody wants any
	server  *live.Server

	mu       sync.Mutex               // all below
	tap      *apicall.Tap             // nil without a proxy
	profiler *profiler                // nil where nothing is seen from the kernel
	clients  map[string]*client       // by process
	losses   map[string]int64         // by source
	known    func() []traces.Operator // processes that the recorder knows more of than their calls; nil for none
}

// client is what the calls of a process have in common.
type client struct{ agents, users, managers []string }

// maxNames bounds the names kept of one client.
const maxNames = 32

// journalEvery is what a SIGKILL may cost of what was recorded.
const journalEvery = 100 * time.Millisecond

// errDuration ends a recording whose time is over.
var errDuration = errors.New("the duration is over")

func newSession(ctx context.Context, o *Options, c *cluster, source string, resources []traces.Resource) (*session, error) {
	s := &session{o: o, cluster: c, redact: o.redactor(), clients: map[string]*client{}, losses: map[string]int64{}}
	if err := s.openMetrics(); err != nil {
		return nil, err
	}
	secrets := "hmac-sha256"
	if o.IncludeSecrets {
		secrets = "none"
	}
	w, err := traces.Create(o.Out, traces.Manifest{
		Created: time.Now().UTC(), Tool: o.Tool, Source: source,
		Cluster:    traces.Cluster{Version: c.version, Server: c.server},
		Resources:  resources,
		Namespaces: o.Namespaces,
		Redaction:  traces.Redaction{Secrets: secrets},
	}, traces.WriterOptions{Journal: journalEvery})
	if err != nil {
		return nil, errors.Join(err, s.server.Close())
	}
	s.w = w
	s.stop = func() {}
	if o.Duration > 0 {
		ctx, s.stop = context.WithTimeoutCause(ctx, o.Duration, errDuration)
	}
	s.ctx, s.cancel = context.WithCancelCause(ctx)
	s.keeping.Go(s.keep)
	return s, nil
}

// keep has the manifest name who called, while the recording is under way: it may be killed.
func (s *session) keep() {
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for {
		select {
		case <-s.ctx.Done():
			return
		case <-tick.C:
		}
		if s.news.Swap(false) {
			_ = s.w.Update(func(m *traces.Manifest) { m.Operators = s.operators() }) // an error of the disk stays, and comes up
		}
	}
}

// Append implements traces.Appender.
func (s *session) Append(r traces.Record) error {
	if s.join != nil && s.join.offer(r) {
		return nil // an error of writing it ends the recording
	}
	return s.write(r)
}

// number gives a row its place in the trace.
func (s *session) number(h *traces.Head) {
	if s.join != nil && h.Seq == 0 {
		h.Seq = s.last.Add(1)
	}
}

// write appends a row that is complete.
func (s *session) write(r traces.Record) error {
	s.number(r.Header())
	switch r := r.(type) {
	case *traces.WatchEvent:
		s.events.Add(1)
		s.bytes.Add(int64(len(r.Object)))
	case *traces.Request:
		s.requests.Add(1)
		s.bytes.Add(int64(len(r.RequestBody) + len(r.ResponseBody)))
		s.meet(r)
	case *traces.Log:
		s.logs.Add(1)
	case *traces.Reconcile:
		s.reconciles.Add(1)
	case *traces.Sample:
		s.samples.Add(1)
	case *traces.Metric:
		s.scraped.Add(1)
	}
	err := s.w.Append(r)
	if err != nil {
		s.fail(err)
		return err
	}
	if s.metrics != nil {
		s.metrics.Row(r)
	}
	if s.o.appended != nil {
		s.o.appended(r)
	}
	return nil
}

// Seq implements traces.Appender.
func (s *session) Seq() int64 {
	if s.join != nil {
		return s.last.Load()
	}
	return s.w.Seq()
}

// now is the trace's clock. Where rows are joined with what the kernel shows it is the kernel's monotonic one, which
// the joiner turns back: the wall clock may step in between.
func (s *session) now() time.Time {
	if s.join != nil {
		return time.Unix(0, s.join.ts(s.join.now()))
	}
	return time.Now()
}

// fail ends the recording: a trace that can't be written is no reason to go on.
func (s *session) fail(err error) {
	s.cancel(cli.CannotRun(fmt.Errorf("write the trace %s: %w", s.o.Out, err)))
}

func (s *session) lose(l traces.Loss) {
	s.lost.Add(1)
	s.mu.Lock()
	s.losses[l.Source] += atLeast(l)
	s.mu.Unlock()
	s.w.Lose(l)
}

// meet remembers what a process's calls have in common, to tell them from everybody else's later.
func (s *session) meet(r *traces.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := s.clients[r.Process]
	if c == nil {
		if len(s.clients) >= maxNames {
			return
		}
		c = &client{}
		s.clients[r.Process] = c
		s.news.Store(true)
	}
	before := len(c.agents) + len(c.managers) + len(c.users)
	defer func() {
		if len(c.agents)+len(c.managers)+len(c.users) > before {
			s.news.Store(true)
		}
	}()
	note(&c.agents, r.UserAgent)
	note(&c.managers, r.FieldManager)
	if isServiceAccount(r.User) {
		// Any other user may be a person with several tools; it doesn't tell the operator apart.
		note(&c.users, r.User)
	}
}

func note(names *[]string, name string) {
	if name != "" && len(*names) < maxNames && !slices.Contains(*names, name) {
		*names = append(*names, name)
	}
}

// knows has the manifest name processes that the recorder knows more of than their calls.
func (s *session) knows(f func() []traces.Operator) {
	s.mu.Lock()
	s.known = f
	s.mu.Unlock()
	s.news.Store(true)
}

// operators are the manifest's entries of the processes that called.
func (s *session) operators() []traces.Operator {
	s.mu.Lock()
	more := s.known
	s.mu.Unlock()
	var known []traces.Operator
	if more != nil {
		known = more()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	var out []traces.Operator
	for process, c := range s.clients {
		out = append(out, traces.Operator{
			Process: process, UserAgents: c.agents, Users: c.users, FieldManagers: c.managers,
		})
	}
	for _, o := range known {
		out = mergeOperator(out, o)
	}
	slices.SortFunc(out, func(a, b traces.Operator) int { return strings.Compare(a.Process, b.Process) })
	return out
}

// finish completes the trace. ERR is what went wrong before; the trace is closed in any case.
func (s *session) finish(err error) (*Result, error) {
	if cause := context.Cause(s.ctx); err == nil && cause != nil && !isEnd(cause) {
		err = cause
	}
	s.cancel(nil)
	s.stop()
	err = errors.Join(err, s.server.Close())
	if s.tap != nil { // which nobody sets any more
		for _, l := range s.tap.Losses() {
			s.lose(l)
		}
	}
	s.keeping.Wait()
	operators := s.operators()
	updateErr := s.w.Update(func(m *traces.Manifest) { m.Operators = operators })
	closeErr := s.w.Close()
	if err == nil {
		err = errors.Join(updateErr, closeErr)
		if err != nil {
			err = cli.CannotRun(fmt.Errorf("write the trace %s: %w", s.o.Out, err))
		}
	}
	if err != nil && !s.begun.Load() && s.Seq() == 0 {
		s.discard()
	}
	return &Result{
		Dir: s.o.Out, Events: s.events.Load(), Requests: s.requests.Load(), Logs: s.logs.Load(), Losses: s.lost.Load(),
		Reconciles: s.reconciles.Load(), Samples: s.samples.Load(), Metrics: s.scraped.Load(),
	}, err
}

// discard removes the trace of a recording that did not begin, so that the name is free for the next attempt.
func (s *session) discard() {
	_ = os.Remove(filepath.Join(s.o.Out, traces.ManifestName))
	_ = os.Remove(s.o.Out) // stays if it is not empty
}

// isEnd: the ends that a recording is meant to have.
func isEnd(err error) bool {
	return errors.Is(err, context.Canceled) || errors.Is(err, errDuration) || errors.Is(err, context.DeadlineExceeded)
}

// mergeOperator adds what the recorder knows of a process to what its calls showed.
func mergeOperator(all []traces.Operator, started traces.Operator) []traces.Operator {
	for i := range all {
		if all[i].Process == started.Process {
			started.UserAgents, started.Users, started.FieldManagers = all[i].UserAgents, all[i].Users, all[i].FieldManagers
			all[i] = started
			return all
		}
	}
	return append(all, started)
}

// report keeps the progress line up to date until the recording ends.
func (s *session) report() {
	if s.o.Progress == nil {
		return
	}
	defer s.o.Progress.Done()
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	began, before := time.Now(), int64(0)
	for {
		select {
		case <-s.ctx.Done():
			return
		case <-tick.C:
		}
		events := s.events.Load()
		s.o.Progress.Set("recording %s: %d events (%d/s), %d calls, %.1f MB of JSON into %s; ^C ends it",
			time.Since(began).Round(time.Second), events, events-before, s.requests.Load(), float64(s.bytes.Load())/1e6, s.o.Out)
		before = events
	}
}
