package front

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"time"

	"github.com/opreplay/opreplay/sim"
	"github.com/opreplay/opreplay/sim/wire"
)

// callOut is a call of the API server to a process, a webhook, on behalf of a request. The request's handler
// stands still until it has the answer, and other steps go on meanwhile.
type callOut struct {
	id      int
	x       *wire.Exchange // that waits
	call    *wire.CallOut
	then    func(wire.Handover) error
	conn    *wire.Client
	replied bool // the answer, or its want, is on the agenda
	expires *sim.Item
}

func (o *callOut) lane() string { return fmt.Sprintf("callout/%06d", o.id) }

// String says in words what is called.
func (o *callOut) String() string {
	return fmt.Sprintf("%s %s%s", o.call.Request.Method, o.call.Request.URL.Host, o.call.Request.URL.Path)
}

var errNoDial = errors.New("nothing can be called in this world")

// await goes on with a handler that has handed over: THEN gets what it made when it does not wait for a
// call of its own, now or later.
func (d *Door) await(x *wire.Exchange, m wire.Handover, then func(wire.Handover) error) error {
	if m.Call == nil {
		return then(m)
	}
	d.called++
	o := &callOut{id: d.called, x: x, call: m.Call, then: then}
	// What the API server gives a webhook it tells it.
	limit, err := time.ParseDuration(m.Call.Request.URL.Query().Get("timeout"))
	if err != nil {
		return fmt.Errorf("%s: a call of the API server without a time limit: %w", o, err)
	}
	d.calls = append(d.calls, o)
	d.after(d.o.Latency, sim.Item{Lane: o.lane(), Kind: "webhook", Subject: o.String(), Apply: func() error {
		d.dial(o)
		return nil
	}})
	o.expires = d.after(limit, sim.Item{Kind: "webhook", Subject: o.String() + ": time is up", Apply: func() error {
		return d.resume(o, nil, context.DeadlineExceeded)
	}})
	return nil
}

// CallOut makes a call of the handler that runs, for code that does not know which one that is. It must be
// called from one of the handler's goroutines.
func (d *Door) CallOut(c *wire.CallOut) (*http.Response, error) { return d.turn.Out(c) }

func (d *Door) dial(o *callOut) {
	if d.o.Dial == nil {
		d.reply(o, nil, errNoDial)
		return
	}
	port := 443
	if p, err := strconv.Atoi(o.call.Request.URL.Port()); err == nil {
		port = p
	}
	s, err := d.o.Dial(o.call.Request.URL.Hostname(), port)
	if err != nil {
		d.reply(o, nil, err)
		return
	}
	o.conn = wire.NewClient(s, o.call)
}

// poll moves the bytes of a call and notices its answer.
func (d *Door) poll(o *callOut) (moved bool) {
	if o.conn == nil || o.replied {
		return false
	}
	moved, done := o.conn.Poll()
	if done {
		resp, err := o.conn.Result() //nolint:bodyclose // a buffer
		d.reply(o, resp, err)
		moved = true
	}
	return moved
}

// reply puts the outcome of a call on the agenda.
func (d *Door) reply(o *callOut, resp *http.Response, err error) {
	o.replied = true
	outcome := "failed"
	if resp != nil {
		outcome = strconv.Itoa(resp.StatusCode)
	}
	if o.conn != nil {
		o.conn.Close()
	}
	d.after(d.o.Latency, sim.Item{Lane: o.lane(), Kind: "webhook", Subject: o.String() + ": " + outcome, Apply: func() error {
		return d.resume(o, resp, err)
	}})
}

// resume lets the handler go on.
func (d *Door) resume(o *callOut, resp *http.Response, err error) error {
	d.forgetCall(o)
	return d.await(o.x, o.x.Resume(o.call, resp, err), o.then)
}

// forgetCall takes a call off the list and the agenda.
func (d *Door) forgetCall(o *callOut) {
	d.calls = slices.DeleteFunc(d.calls, func(c *callOut) bool { return c == o })
	if o.conn != nil {
		o.conn.Close()
	}
	if o.expires != nil {
		d.o.World.Cancel(o.expires)
	}
	d.o.World.CancelLane(o.lane())
}

// waits reports whether a handler waits for a call of its own.
func (d *Door) waits(x *wire.Exchange) bool {
	return slices.ContainsFunc(d.calls, func(o *callOut) bool { return o.x == x })
}

// abandon fails the call that a handler waits for, since its client has gone, and lets the handler end.
func (d *Door) abandon(x *wire.Exchange) {
	for _, o := range d.calls {
		if o.x == x {
			d.forgetCall(o)
			d.fail(o.then(x.Abandon()))
			return
		}
	}
}

// finish steps the world until a call within a step has its answer: the outsider who made it waits.
func (d *Door) finish(x *wire.Exchange, m wire.Handover) (wire.Handover, error) {
	done := false
	err := d.await(x, m, func(last wire.Handover) error {
		m, done = last, true
		return nil
	})
	for err == nil && !done {
		if _, err = d.o.World.Step(context.Background()); err != nil {
			d.abandon(x)
		}
	}
	if errors.Is(err, sim.ErrLimit) || errors.Is(err, sim.ErrQuiet) {
		err = nil // the webhook has not answered by the end of the run: it failed
	}
	return m, err
}
