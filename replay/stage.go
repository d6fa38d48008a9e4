package replay

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"time"

	"github.com/opreplay/opreplay/internal/cli"
	"github.com/opreplay/opreplay/sim/actor"
	"github.com/opreplay/opreplay/sim/apiserver"
)

// stage is where the outsiders play: it applies the script's steps at their times.
type stage struct {
	r      *run
	player *actor.Player
	// elapsed is the run's time since the operator's first call, ended is closed when the operator ended.
	elapsed func() time.Duration
	ended   <-chan struct{}
	// late is by how much the script has fallen behind, waiting for the operator. Later steps keep their
	// distance.
	late     time.Duration
	waits    []actor.Step // steps whose outcome was Waiting
	applied  int
	played   int
	outcomes []StepOutcome
	// writes are the operator's recorded ones, but for repetitions; wrote counts those before the step by
	// target, inVain are targets that the stage has waited for in vain.
	writes    []write
	nextWrite int
	wrote     map[string]int
	inVain    map[string]bool
}

// newStage makes the stage of a wall run that begins now. VIA carries the outsiders' calls.
func newStage(r *run, via http.RoundTripper) *stage {
	began := time.Now()
	return &stage{
		r: r, elapsed: func() time.Duration { return time.Since(began) }, writes: distinctWrites(r.script), wrote: map[string]int{}, inVain: map[string]bool{},
		player: actor.NewPlayer(actor.Options{
			Write: via,
			Read:  r.server.Outsider(apiserver.Admin),
			Refs:  r.script.Refs,
		}),
	}
}

// play applies all steps and waits for the end. It returns nil when the operator ended before that, too.
func (s *stage) play(ctx context.Context) error {
	if d := s.r.o.Limit; d > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, d-s.elapsed(), errOver)
		defer cancel()
	}
	err := s.steps(ctx)
	if err == nil {
		err = s.giveUp(ctx)
	}
	switch {
	case errors.Is(err, errEnded), errors.Is(context.Cause(ctx), errOver):
		return nil
	case err != nil && ctx.Err() != nil:
		return cli.CannotRun(fmt.Errorf("the run was ended before its time: %w", ctx.Err()))
	}
	return err
}

var errOver = errors.New("the run's limit is reached")

func (s *stage) steps(ctx context.Context) error {
	due, last := time.Duration(0), time.Duration(0)
	for _, step := range s.r.script.Steps {
		due, last = due+s.r.o.gap(step.At-last), step.At
		if err := s.until(ctx, due); err != nil {
			return err
		}
		if err := s.awaitWrites(ctx, step); err != nil {
			return err
		}
		if err := s.apply(ctx, step, false); err != nil {
			return err
		}
		s.played++
		if err := s.retry(ctx); err != nil {
			return err
		}
		if step.Resource == "customresourcedefinitions" {
			if err := s.r.captureAll(); err != nil {
				return cli.CannotRun(err)
			}
		}
	}
	// With a limit the run goes on until it is over.
	if s.r.o.Limit > 0 {
		return s.until(ctx, s.r.o.Limit)
	}
	return s.until(ctx, due+s.r.o.gap(s.r.script.Span-last)+s.r.o.Settle)
}

// tick is how often waiting steps are tried again and the progress line is renewed.
const tick = 100 * time.Millisecond

// until waits for a time since the operator's first call.
func (s *stage) until(ctx context.Context, due time.Duration) error {
	for {
		left := due + s.late - s.elapsed()
		if left <= 0 {
			return nil
		}
		if err := s.wait(ctx, min(left, tick), nil); err != nil {
			return err
		}
		if err := s.retry(ctx); err != nil {
			return err
		}
	}
}

// wait waits for a time, or for OTHER.
func (s *stage) wait(ctx context.Context, d time.Duration, other <-chan struct{}) error {
	calls, writes, _ := s.r.ledger.counts()
	s.r.o.Progress.Set("running %s of about %s: change %d of %d; the operator made %d calls, %d of them writes",
		s.elapsed().Round(time.Second), s.r.script.Span.Round(time.Second), s.played, len(s.r.script.Steps), calls, writes)
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-other:
	case <-s.ended:
		return errEnded
	case <-ctx.Done():
		return ctx.Err()
	}
	return nil
}

// awaitWrites waits until the operator has made what it had written before the step in the recording, but
// no longer than the patience. A target that was waited for in vain is not waited for again.
func (s *stage) awaitWrites(ctx context.Context, step actor.Step) error {
	s.want(step)
	if s.r.o.Patience <= 0 {
		return nil
	}
	from := s.elapsed()
	for {
		changed := s.r.ledger.next()
		left := s.r.o.Patience - (s.elapsed() - from)
		if len(s.missing()) == 0 {
			break
		}
		if left <= 0 {
			s.despair(step)
			break
		}
		if err := s.wait(ctx, min(left, tick), changed); err != nil {
			return err
		}
	}
	s.late += s.elapsed() - from
	return nil
}

// want adds what the operator had written before the step in the recording to what is to be there now.
func (s *stage) want(step actor.Step) {
	for ; s.nextWrite < len(s.writes) && s.writes[s.nextWrite].seq < step.Seq; s.nextWrite++ {
		s.wrote[s.writes[s.nextWrite].target.String()]++
	}
}

// missing names the targets that the operator has yet to write, but for those waited for in vain before.
func (s *stage) missing() []string {
	return slices.DeleteFunc(s.r.ledger.lack(s.wrote), func(t string) bool { return s.inVain[t] })
}

// despair gives up what is missing.
func (s *stage) despair(step actor.Step) {
	for _, t := range s.missing() {
		s.inVain[t] = true
		s.r.decide("wait", fmt.Sprintf("%s: the operator's recorded %s did not come before it", step, t), "")
	}
}

// apply applies a step and notes what became of it.
func (s *stage) apply(ctx context.Context, step actor.Step, last bool) error {
	if !last && slices.ContainsFunc(s.waits, func(w actor.Step) bool { return w.Ref == step.Ref }) {
		s.waits = append(s.waits, step) // not before what was done to the object before it
		return nil
	}
	out, err := s.player.Apply(ctx, step)
	if err != nil {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		return cli.CannotRun(err)
	}
	if (out.Result == actor.Waiting || s.mayFitLater(step, out)) && !last {
		s.waits = append(s.waits, step)
		return nil
	}
	text := step.String() + ": " + string(out.Result)
	if out.Detail != "" {
		text += ": " + out.Detail
	}
	s.r.decide("outsider", text, "")
	if out.Result == actor.Applied || out.Result == actor.Unchanged {
		s.applied++
		return nil
	}
	s.outcomes = append(s.outcomes, StepOutcome{
		Step: step.String(), Seq: step.Seq, Result: out.Result, Detail: out.Detail,
		RunTime: s.elapsed().Round(time.Millisecond).String(),
	})
	return nil
}

// mayFitLater says whether a step is about an object that the operator has not made yet: on a cluster that lives,
// whoever changed it in the recording would do so when it comes.
func (s *stage) mayFitLater(step actor.Step, out actor.Outcome) bool {
	if !s.r.o.Live || out.Result != actor.Skipped || step.Kind != actor.Change {
		return false
	}
	made := func(x actor.Step) bool { return x.Kind == actor.Create && x.Ref == step.Ref && x.Seq < step.Seq }
	was := func(o Recorded) bool { return o.Ref == step.Ref }
	if slices.ContainsFunc(s.r.script.Steps, made) || slices.ContainsFunc(s.r.script.Initial, was) {
		return false
	}
	now, err := s.player.Exists(context.Background(), step.Ref)
	return err == nil && !now
}

// retry tries the steps that wait.
func (s *stage) retry(ctx context.Context) error {
	waiting := s.waits
	s.waits = nil
	for _, step := range waiting {
		if err := s.apply(ctx, step, false); err != nil {
			return err
		}
	}
	return nil
}

// giveUp notes the steps that waited in vain.
func (s *stage) giveUp(ctx context.Context) error {
	for _, step := range s.waits {
		if err := s.apply(ctx, step, true); err != nil {
			return err
		}
	}
	s.waits = nil
	return nil
}

func (s *stage) result() *Result {
	steps := len(s.r.script.Steps)
	return &Result{
		Steps: steps, Applied: s.applied, Skipped: s.outcomes, NotReached: steps - s.played, Took: s.elapsed(),
	}
}

// handlerTransport makes requests to a handler in this process. It serves calls that end, not watches.
type handlerTransport struct{ handler http.Handler }

// RoundTrip implements http.RoundTripper.
func (t handlerTransport) RoundTrip(q *http.Request) (*http.Response, error) {
	r := q.Clone(apiserver.WithUser(q.Context(), apiserver.Admin))
	r.RequestURI, r.RemoteAddr = q.URL.RequestURI(), "127.0.0.1:1"
	if r.Body == nil {
		r.Body = http.NoBody
	}
	var body bytes.Buffer
	w := &discard{header: http.Header{}, ctx: q.Context(), into: &body}
	t.handler.ServeHTTP(w, r)
	if err := q.Context().Err(); err != nil {
		return nil, err
	}
	if w.code == 0 {
		w.code = http.StatusOK
	}
	return &http.Response{
		StatusCode: w.code, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Header: w.header,
		Body: io.NopCloser(&body), ContentLength: int64(body.Len()), Request: q,
	}, nil
}
