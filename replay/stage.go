package replay

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/opreplay/opreplay/internal/cli"
	"github.com/opreplay/opreplay/sim/actor"
	"github.com/opreplay/opreplay/sim/apiserver"
	"github.com/opreplay/opreplay/sim/process"
	"github.com/opreplay/opreplay/traces"
)

// stage is where the outsiders play: it applies the script's steps at their times.
type stage struct {
	r        *run
	operator process.Process
	player   *actor.Player
	began    time.Time
	// late is by how much the script has fallen behind, waiting for the operator. Later steps keep their
	// distance.
	late     time.Duration
	waits    []actor.Step // steps whose outcome was Waiting
	applied  int
	played   int
	outcomes []StepOutcome
	// wrote is what the operator had written before the step in the recording; given what the stage has
	// waited for in vain.
	wrote  map[string]int
	nextW  int
	wanted []*traces.Request
}

func newStage(r *run, p process.Process) *stage {
	return &stage{
		r: r, operator: p, began: time.Now(), wrote: map[string]int{}, wanted: r.script.Writes,
		player: actor.NewPlayer(actor.Options{
			Write: handlerTransport{r.tap.Handler(r.front)},
			Read:  r.server.Outsider(apiserver.Admin),
			Refs:  r.script.Refs,
		}),
	}
}

// play applies all steps and waits for the end. It returns nil when the operator ended before that, too.
func (s *stage) play(ctx context.Context) error {
	if d := s.r.o.Duration; d > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithDeadlineCause(ctx, s.began.Add(d), errOver)
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

var errOver = errors.New("the run's duration is over")

func (s *stage) steps(ctx context.Context) error {
	due, last := time.Duration(0), time.Duration(0)
	for _, step := range s.r.script.Steps {
		due, last = due+s.gap(step.At-last), step.At
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
	// With a duration the run goes on until it is over.
	if s.r.o.Duration > 0 {
		return s.until(ctx, s.r.o.Duration)
	}
	return s.until(ctx, due+s.gap(s.r.script.Span-last)+s.r.o.Settle)
}

// gap is the wait that stands for a recorded one.
func (s *stage) gap(recorded time.Duration) time.Duration {
	recorded = max(recorded, 0)
	if s.r.o.MaxGap < 0 {
		return recorded
	}
	return min(recorded, s.r.o.MaxGap)
}

// tick is how often waiting steps are tried again and the progress line is renewed.
const tick = 100 * time.Millisecond

// until waits for a time since the operator's first call.
func (s *stage) until(ctx context.Context, due time.Duration) error {
	for {
		left := due + s.late - time.Since(s.began)
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
		time.Since(s.began).Round(time.Second), s.r.script.Span.Round(time.Second), s.played, len(s.r.script.Steps), calls, writes)
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-other:
	case <-s.operator.Done():
		return errEnded
	case <-ctx.Done():
		return ctx.Err()
	}
	return nil
}

// waitedRepetitions bounds how many of a target's writes a step waits for: an operator that wakes itself makes as
// many as the time allows, and nobody waits for the last of them.
const waitedRepetitions = 8

// awaitWrites waits until the operator has made what it had written before the step in the recording, but
// no longer than the patience. What did not come in that time is not waited for again.
func (s *stage) awaitWrites(ctx context.Context, step actor.Step) error {
	for ; s.nextW < len(s.wanted) && s.wanted[s.nextW].Seq < step.Seq; s.nextW++ {
		w := s.wanted[s.nextW]
		if kindOf(w) != nil {
			continue
		}
		t := targetOf(w)
		if k := t.String(); s.wrote[k] < waitedRepetitions {
			s.wrote[k]++
		}
	}
	if s.r.o.Patience <= 0 {
		return nil
	}
	from := time.Now()
	deadline := from.Add(s.r.o.Patience)
	for {
		missing, changed := s.r.ledger.lacks(s.wrote)
		left := time.Until(deadline)
		if missing == 0 || left <= 0 {
			if missing > 0 {
				s.r.decide("wait", fmt.Sprintf("%s: %d recorded writes of the operator did not come before it", step, missing), "")
				s.wrote = map[string]int{}
			}
			break
		}
		if err := s.wait(ctx, min(left, tick), changed); err != nil {
			return err
		}
	}
	s.late += time.Since(from)
	return nil
}

// apply applies a step and notes what became of it.
func (s *stage) apply(ctx context.Context, step actor.Step, last bool) error {
	out, err := s.player.Apply(ctx, step)
	if err != nil {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		return cli.CannotRun(err)
	}
	if out.Result == actor.Waiting && !last {
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
		RunTime: time.Since(s.began).Round(time.Millisecond).String(),
	})
	return nil
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
		Steps: steps, Applied: s.applied, Skipped: s.outcomes, NotReached: steps - s.played, Took: time.Since(s.began),
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
