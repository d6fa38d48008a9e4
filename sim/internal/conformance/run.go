package conformance

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// Pair runs sequences on two servers in lockstep: an operation is made when both have answered the one
// before.
type Pair struct {
	Real, Ours *Server
	// Known are the differences that are not reported; see [Known].
	Known []Known
	// Webhooks is where [Hooks] is served; both servers call it.
	Webhooks Webhooks
}

// Webhooks is where sequences find webhooks.
type Webhooks struct {
	URL string // https://HOST:PORT
	CA  []byte // certificates as PEM
}

// runs counts those of the process: a server may be asked by several Pairs.
var runs atomic.Uint64

// Outcome is what came of one operation.
type Outcome struct {
	Op         *Op
	Real, Ours *Answer
	// The events of a watch.
	RealEvents, OursEvents []any
	Differences            []Difference
	// Known are the differences that are on the list.
	Known []Difference
}

// side is one server's part in a run.
type side struct {
	*Server
	binding
	answers []*Answer // by position
	streams map[int]*stream
	made    []string // paths of what is to be deleted
	started time.Time
}

// Run asks both servers the sequence, in a namespace of its own, and compares. The error is about the
// run itself.
func (p *Pair) Run(ctx context.Context, s *Sequence) ([]*Outcome, error) {
	ctx, cancel := context.WithTimeout(ctx, runTimeout)
	defer cancel()
	ns := fmt.Sprintf("s%d-%d-r%d", s.Seed, s.Number, runs.Add(1))
	sides := []*side{p.side(p.Real, ns), p.side(p.Ours, ns)}
	defer func() {
		_ = both(sides, func(d *side) error { d.clean(context.WithoutCancel(ctx)); return nil })
	}()
	if err := both(sides, func(d *side) error { return d.begin(ctx) }); err != nil {
		return nil, err
	}
	for i, op := range s.Ops {
		if err := both(sides, func(d *side) error { return d.do(ctx, i, op) }); err != nil {
			return nil, fmt.Errorf("operation %d: %w", op.ID, err)
		}
	}
	settleStreams(sides[0], sides[1])
	return p.compare(s, sides[0], sides[1]), nil
}

// runTimeout is for one sequence; it is reached only where a server hangs.
const runTimeout = 5 * time.Minute

func (p *Pair) side(s *Server, ns string) *side {
	return &side{
		Server: s, streams: map[int]*stream{}, started: s.Now(),
		binding: binding{namespace: ns, answers: map[int]*Answer{}, now: s.Now, hooks: p.Webhooks},
	}
}

// both does a thing on both sides at once.
func both(sides []*side, do func(*side) error) error {
	errs := make([]error, len(sides))
	var wg sync.WaitGroup
	for i, d := range sides {
		wg.Go(func() { errs[i] = do(d) })
	}
	wg.Wait()
	for i, err := range errs {
		if err != nil {
			return fmt.Errorf("%s: %w", sides[i].Name, err)
		}
	}
	return nil
}

func (d *side) begin(ctx context.Context) error {
	if d.Fresh != nil {
		d.Fresh()
	}
	a, err := d.ask(ctx, &Op{
		Method: http.MethodPost, Path: "/api/v1/namespaces", Type: "application/json",
		Body: `{"metadata":{"name":"${ns}","labels":{"seq":"${ns}"}}}`,
	}, &d.binding)
	if err != nil {
		return err
	}
	if a.Code != http.StatusCreated {
		return fmt.Errorf("namespace %s: %d %s %s", d.namespace, a.Code, a.Body, a.Broken)
	}
	d.made = append(d.made, "/api/v1/namespaces/"+d.namespace)
	return nil
}

func (d *side) do(ctx context.Context, i int, op *Op) error {
	for len(d.answers) <= i {
		d.answers = append(d.answers, nil)
	}
	if op.Settle != "" {
		// A list that may not be stale has the watch cache wait until it is up to date.
		if _, err := d.ask(ctx, &Op{Path: op.Settle + "?labelSelector=nothing%3Dnowhere"}, &d.binding); err != nil {
			return err
		}
	}
	if d.current = nil; op.Read != "" {
		a, err := d.ask(ctx, &Op{Path: op.Read}, &d.binding)
		if err != nil {
			return err
		}
		if a.Code == http.StatusOK {
			d.current = a
		}
	}
	switch op.Do {
	case Watch:
		w, err := d.watch(ctx, op, &d.binding)
		if err != nil {
			return err
		}
		d.streams[op.ID], d.answers[i] = w, w.answer
		d.binding.answers[op.ID] = w.answer
		if strings.Contains(op.Path, "sendInitialEvents=true") {
			w.begun()
		}
		return nil
	case Await:
		a, err := d.await(ctx, op)
		d.answers[i] = a
		return err
	case Request:
		a, err := d.ask(ctx, op, &d.binding)
		if err != nil {
			return err
		}
		d.answers[i], d.binding.answers[op.ID] = a, a
		d.remember(op, a)
		return nil
	}
	return fmt.Errorf("there is no %q to do", op.Do)
}

// awaitTimeout is how long an answer may take to become what is awaited.
const awaitTimeout = 20 * time.Second

// await repeats a request until it is answered as it should be.
func (d *side) await(ctx context.Context, op *Op) (*Answer, error) {
	ctx, cancel := context.WithTimeout(ctx, awaitTimeout)
	defer cancel()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	if made := d.binding.answers[op.After]; op.After != 0 && (made == nil || made.Code/100 != 2) {
		return &Answer{At: d.Now()}, nil
	}
	var last *Answer
	for {
		a, err := d.ask(ctx, op, &d.binding)
		if a != nil && a.Code == op.Until && strings.Contains(string(a.Body), d.text(op.Has)) {
			return a, nil
		}
		if err != nil && ctx.Err() == nil {
			return nil, err
		}
		if err == nil || last == nil {
			last = a
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			if last == nil {
				last = &Answer{At: d.Now(), Broken: "no answer"}
			}
			return last, nil // compared: the other server may wait in vain as well
		}
	}
}

// remember notes what was made outside the sequence's namespace.
func (d *side) remember(op *Op, a *Answer) {
	if a.Code != http.StatusCreated && a.Code != http.StatusOK || op.Keep || op.Method == "" || op.Method == http.MethodDelete {
		return
	}
	path, query, _ := strings.Cut(d.text(op.Path), "?")
	if strings.Contains(path, "/namespaces/") || strings.Contains(query, "dryRun") {
		return
	}
	name := d.field(op.ID, "metadata.name")
	if name == "nothing" || name == "" || d.field(op.ID, "metadata.uid") == "nothing" {
		return
	}
	if op.Method == http.MethodPost {
		path += "/" + url.PathEscape(name)
	} else if !strings.HasSuffix(path, "/"+name) {
		return // a subresource
	}
	d.made = append(d.made, path)
}

// clean ends the watches and deletes what is outside of the namespace, so that a long run does not slow
// down by itself. What else is in the namespace stays: it is in nobody's way.
func (d *side) clean(ctx context.Context) {
	for _, w := range d.streams {
		w.close()
	}
	// Addresses and ports are the whole cluster's, and there are not many.
	_, _ = d.ask(ctx, &Op{Method: http.MethodDelete, Path: "/api/v1/namespaces/${ns}/services"}, &d.binding)
	for i := len(d.made) - 1; i >= 0; i-- {
		path := d.made[i]
		a, err := d.ask(ctx, &Op{
			Method: http.MethodDelete, Path: path, Type: "application/json", Body: `{"gracePeriodSeconds":0,"propagationPolicy":"Background"}`,
		}, &d.binding)
		if err == nil && a.Code == http.StatusOK {
			_, _ = d.ask(ctx, &Op{
				Method: http.MethodPatch, Path: path, Type: mergePatch, Body: `{"metadata":{"finalizers":null}}`,
			}, &d.binding)
		}
	}
}

const (
	quiet      = 100 * time.Millisecond
	streamWait = 5 * time.Second
	wholeWait  = 30 * time.Second // for one that is compared to its end
	streamPoll = 5 * time.Millisecond
)

// settleStreams waits until both servers have said all on all watches: until the numbers of events are
// the same and have not changed for a while. Where one has less to say than the other, that is known
// after a longer one.
func settleStreams(a, b *side) {
	if len(a.streams) == 0 {
		return
	}
	tick := time.NewTicker(streamPoll)
	defer tick.Stop()
	last, since, begin, most := 0, time.Now(), time.Now(), streamWait
	if !ended(a) || !ended(b) {
		most = wholeWait
	}
	for time.Since(begin) < most {
		now, same := 0, true
		for id, w := range a.streams {
			n, m := w.progress(), b.streams[id].progress()
			now += n + m
			same = same && n == m
		}
		if now != last {
			last, since = now, time.Now()
		}
		if same && time.Since(since) > quiet && ended(a) && ended(b) {
			return
		}
		<-tick.C
	}
}

// begun waits until the initial events have been told: what follows is to come after them on both servers.
func (w *stream) begun() {
	tick := time.NewTicker(streamPoll)
	defer tick.Stop()
	for begin := time.Now(); time.Since(begin) < streamWait && !w.over(); <-tick.C {
		if slices.ContainsFunc(w.seen(), func(ev any) bool { return strings.Contains(text(ev), `"k8s.io/initial-events-end":"true"`) }) {
			return
		}
	}
}

// ended says whether the watches that are compared to their end are at it.
func ended(d *side) bool {
	for _, w := range d.streams {
		if w.op.Whole && !w.over() {
			return false
		}
	}
	return true
}

// progress grows with each event and with the end.
func (w *stream) progress() int {
	n := len(w.told())
	if w.over() {
		n += 1 << 20
	}
	return n
}

// told are a watch's events as they are compared.
func (w *stream) told() []any {
	if !w.op.Whole {
		return without(w.seen())
	}
	var out []any
	before := false
	for _, ev := range w.seen() {
		m, _ := ev.(map[string]any)
		bookmark := m["type"] == "BOOKMARK" && !initialEnd(m)
		if bookmark && before {
			out = out[:len(out)-1] // the last says it all
		}
		out = append(out, ev)
		before = bookmark
	}
	return out
}

// without leaves out the bookmarks that come when a server thinks it right.
func without(events []any) []any {
	var out []any
	for _, ev := range events {
		if m, ok := ev.(map[string]any); ok && m["type"] == "BOOKMARK" && !initialEnd(m) {
			continue
		}
		out = append(out, ev)
	}
	return out
}

func initialEnd(ev map[string]any) bool {
	obj, _ := ev["object"].(map[string]any)
	meta, _ := obj["metadata"].(map[string]any)
	notes, _ := meta["annotations"].(map[string]any)
	return notes["k8s.io/initial-events-end"] == "true"
}
