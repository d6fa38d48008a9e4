package front

import (
	"context"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/opreplay/opreplay/internal/apicall"
	"github.com/opreplay/opreplay/sim"
	"github.com/opreplay/opreplay/sim/fault"
	"github.com/opreplay/opreplay/sim/store"
	"github.com/opreplay/opreplay/sim/wire"
)

// exchange is one call from its arrival to its end.
type exchange struct {
	link    *link
	x       *wire.Exchange
	rec     *apicall.Recording
	out     *sink // what the record lets through
	call    fault.Call
	verdict fault.Verdict
	reached bool   // the API server has it
	copied  string // what the client says that it has of an answer which is edited

	vanished bool          // nobody waits for its answer
	life     time.Duration // of a watch

	stream   *store.Stream // a watch under way
	next     *sim.Item     // its next event on the agenda; nil for none
	held     bool          // next is held by a fault
	began    int64         // when the watch's header came
	asked    bool          // the faults were asked about the stream's next event, which is due
	due      int64         // then at the earliest, and
	ahead    bool          // are to be told of those behind it,
	told     uint64        // and have been up to this version
	expires  *sim.Item
	bookmark *sim.Item // when it gets its next one; nil for none
}

// lane keeps the order of what happens to a call, and to the calls of one HTTP/1.1 connection. Streams of an
// HTTP/2 connection may overtake each other.
func (e *exchange) lane() string {
	if n := e.x.StreamID(); n != 0 {
		return fmt.Sprintf("%s/%06d", e.link.lane(), n)
	}
	return e.link.lane()
}

// unwanted reports whether the client is no longer there for the answer.
func (e *exchange) unwanted() bool { return e.vanished || e.link.conn.Closed() }

// Arrival is what a step of kind "request" is about.
type Arrival struct {
	Call   fault.Call
	Ticket fault.Ticket // by which the plan knows it
}

// arrive puts a call that has been read on the agenda.
func (d *Door) arrive(l *link, x *wire.Exchange) {
	e := &exchange{link: l, x: x, out: newSink()}
	e.rec = d.o.Tap.Open(e.out, identified(x.Request, l.client))
	e.call = callOf(e.rec, l.client.Process)
	x.Request = e.rec.Request()
	e.life = takeTimeout(x.Request)
	e.verdict = d.o.Faults.Arrive(e.call)
	l.now = append(l.now, e)
	d.o.Arrived(e.call)
	d.after(d.o.Latency+e.verdict.Delay, sim.Item{
		Lane: e.lane(), Kind: "request", Subject: e.String(), About: Arrival{e.call, e.verdict.Ticket}, Rule: strings.Join(e.verdict.Rules, "; "),
		Apply: func() error { return d.run(e) },
	})
}

// run executes a call, or does not, and puts its answer on the agenda.
func (d *Door) run(e *exchange) error {
	e.reached = true
	d.remember(e.verdict, false)
	if err := d.carryOut(e.verdict.Before); err != nil {
		return err
	}
	if len(e.verdict.Before) > 0 && e.unwanted() {
		// Its client is dead, and it is not executed.
		return d.heed(d.o.Faults.Done(e.verdict.Ticket))
	}
	var m wire.Handover
	if instead := e.verdict.Refusal; instead == nil || instead.Committed {
		if e.verdict.Edit != nil {
			e.copied = e.x.Request.Header.Get("If-None-Match")
			whole(e.x.Request)
		}
		hint, done := d.o.Prepare(e.call, e.x.Request)
		ctx := store.WithHint(store.WithPuller(d.turn.With(context.Background()), e), hint)
		ctx = store.WithClient(ctx, store.Client{UserAgent: e.x.Request.UserAgent(), User: e.link.client.User, Process: e.link.client.Process})
		return d.await(e.x, e.x.Run(ctx, d.o.Handler), func(m wire.Handover) error {
			done(m.Code)
			return d.ran(e, m)
		})
	}
	return d.ran(e, m)
}

// ran puts the answer of a call that has run, or was not to run, on the agenda.
func (d *Door) ran(e *exchange, m wire.Handover) error {
	instead := e.verdict.Refusal
	lost := instead != nil && instead.Lost()
	if m.Panic != "" { // as of a real one: its client gets no answer, others do not notice
		why, _, _ := strings.Cut(m.Panic, "\n")
		d.tell("the API server panicked in %s, which got no answer: %s", e, why)
		m, lost = wire.Handover{Done: true}, true
		e.x.Cancel()
	}
	d.remember(e.verdict, true)
	fx := d.o.Faults.Done(e.verdict.Ticket)
	latency := d.o.Latency
	if instead != nil {
		e.x.Cancel() // a watch, if it was one
		e.stream = nil
		m = wire.Handover{Done: true}
		if !instead.Lost() {
			m.Code, m.Header, m.Body = instead.Answer()
		}
		latency += instead.Wait
	} else if edit := e.verdict.Edit; edit != nil && !lost && m.Code == http.StatusOK {
		m = edited(m, edit, e.copied)
	}
	d.Committed()
	if e.unwanted() {
		return d.heed(fx) // its client has gone while a webhook was called
	}
	d.after(latency, sim.Item{
		Lane: e.lane(), Kind: "answer", Subject: fmt.Sprintf("%s: %s", e, outcome(m, instead, lost)),
		Apply: func() error {
			d.answer(e, m, lost)
			return nil
		},
	})
	return d.heed(fx)
}

// answer tells the client.
func (d *Door) answer(e *exchange, m wire.Handover, lost bool) {
	if lost {
		d.sever(e)
		return
	}
	e.write(m)
	if !m.Done {
		e.x.Answer(wire.Handover{Code: e.out.code, Header: e.out.header, Body: e.out.take()})
		d.begin(e)
	} else {
		e.rec.Finish(true)
		e.link.ended(e)
		e.x.Answer(wire.Handover{Done: true, Code: e.out.code, Header: e.out.header, Body: e.out.take()})
	}
	d.soon(d.o.Faults.Answered(e.verdict.Ticket))
}

// write passes what the handler made through the record.
func (e *exchange) write(m wire.Handover) {
	w := e.rec.Writer()
	for k, v := range m.Header {
		w.Header()[k] = v
	}
	w.WriteHeader(m.Code)
	if len(m.Body) > 0 {
		_, _ = w.Write(m.Body) // the sink takes everything
	}
}

// String says in words what the call is.
func (e *exchange) String() string {
	var b strings.Builder
	c := e.call
	fmt.Fprintf(&b, "%s ", strings.ToUpper(c.Verb))
	if c.Resource == "" {
		b.WriteString(e.x.Request.URL.Path)
	} else {
		b.WriteString(c.Resource)
	}
	if c.Namespace != "" || c.Name != "" {
		b.WriteString(" " + strings.TrimPrefix(c.Namespace+"/"+c.Name, "/"))
	}
	if c.Subresource != "" {
		b.WriteString(" " + c.Subresource)
	}
	fmt.Fprintf(&b, " by %s", e.link.client.Process)
	return b.String()
}

func outcome(m wire.Handover, instead *fault.Refusal, lost bool) string {
	switch {
	case lost:
		return "lost"
	case instead != nil:
		return fmt.Sprintf("%d instead", m.Code)
	}
	return strconv.Itoa(m.Code)
}

// identified is the request as the API server is to see it: from its client, whatever it claims.
func identified(r *http.Request, c Client) *http.Request {
	r.Header.Del("X-Remote-User")
	r.Header.Del("X-Remote-Group")
	if c.User != "" {
		r.Header.Set("X-Remote-User", c.User)
		for _, g := range c.Groups {
			r.Header.Add("X-Remote-Group", g)
		}
	}
	r.RemoteAddr = "127.0.0.1:40000"
	return r.WithContext(context.WithValue(r.Context(), processKey{}, c.Process))
}

type processKey struct{}

// ProcessOf is the process of the world that makes a request; "" for an outsider. It is for a Tap's
// Options.
func ProcessOf(r *http.Request) string {
	p, _ := r.Context().Value(processKey{}).(string)
	return p
}

func callOf(rec *apicall.Recording, client string) fault.Call {
	t := rec.Target()
	return fault.Call{
		Client: client, Verb: t.Verb, Group: t.Group, Version: t.Version, Resource: t.Resource,
		Namespace: t.Namespace, Name: t.Name, Subresource: t.Subresource, Path: t.Path,
	}
}

// takeTimeout removes the time limits from a request's query and returns the watch's: the server would
// hold them against the wall clock. What it refuses, or what is over at once, it is left.
func takeTimeout(r *http.Request) time.Duration {
	if !strings.Contains(r.URL.RawQuery, "timeout") {
		return 0
	}
	q := r.URL.Query()
	var life time.Duration
	if n, err := strconv.ParseInt(q.Get("timeoutSeconds"), 10, 64); err == nil && n >= 0 {
		const most = 1 << 32 // seconds
		life = time.Duration(min(n, most)) * time.Second
		q.Del("timeoutSeconds")
	}
	q.Del("timeout")
	u := *r.URL
	u.RawQuery = q.Encode()
	r.URL, r.RequestURI = &u, u.RequestURI()
	return life
}
