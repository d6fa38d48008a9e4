package wire

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"runtime/debug"
	"slices"
)

// Exchange is one request and its answer.
type Exchange struct {
	Request *http.Request
	Body    []byte // the request's body, whole

	conn      *Conn
	via       carrier
	cancel    context.CancelFunc
	hand      chan Handover // from the handler's goroutine; unbuffered
	running   bool
	stream    bool // the handler has begun a watch
	streaming bool // its header is out
	calling   *CallOut
	turn      *Turn // nil: nobody asks who runs
}

// NewExchange makes an exchange that no connection carries: a call of the world's own, of which Run and
// Await give the answer. It must not be Answered.
func NewExchange(r *http.Request, body []byte) *Exchange { return &Exchange{Request: r, Body: body} }

// carrier is an exchange's place on its connection.
type carrier interface {
	// whole sends an answer that is complete; the three below send a stream's.
	whole(r *http.Request, m Handover)
	begin(m Handover)
	more(b []byte)
	end()
	// done says that nothing more is sent.
	done()
	// fail breaks off without an answer; err says why, and is nil if the world wants it so.
	fail(err error)
	// gone reports whether the client no longer wants the answer.
	gone() bool
	// pending is the number of bytes that wait for the client.
	pending() int
	// stream tells exchanges of one connection apart.
	stream() int
}

// Handover is what a handler has produced since the last one.
type Handover struct {
	// Done is true when the handler has returned: nothing follows.
	Done bool
	// Call, if not nil, is a call that the handler waits for, and nothing else is set: see Resume.
	Call   *CallOut
	Code   int
	Header http.Header
	Body   []byte
	// Panic is the handler's panic and stack, "" for none. The client's connection breaks then, as
	// net/http breaks it.
	Panic string
}

// Stream says that the answer is a stream, a watch: its flushes hand over from now on. Without it flushes
// are ignored and the answer comes whole. It is called from within the handler, when the watch begins.
func (x *Exchange) Stream() { x.stream = true }

// Run starts the handler and waits until it has returned, or for a stream until its first flush, or until
// it calls out.
func (x *Exchange) Run(ctx context.Context, h http.Handler) Handover {
	x.turn, _ = ctx.Value(turnKey{}).(*Turn)
	ctx, x.cancel = context.WithCancel(context.WithValue(ctx, exchangeKey{}, x))
	x.hand = make(chan Handover)
	x.running = true
	w := &responder{x: x, header: http.Header{}, code: http.StatusOK}
	req := x.Request.WithContext(ctx)
	req.Body = http.NoBody
	if len(x.Body) > 0 {
		req.Body = nopCloser{bytes.NewReader(x.Body)}
	}
	x.take()
	onWorker(func() {
		defer func() {
			last := w.take(true)
			if r := recover(); r != nil {
				last.Panic = fmt.Sprintf("%v\n%s", r, debug.Stack())
			}
			x.hand <- last
		}()
		h.ServeHTTP(w, req)
	})
	return x.Await()
}

// Await waits for the handler's next flush or its end. The world calls it after it has given the
// handler something to write, and only then: a handler with nothing to write would never answer.
func (x *Exchange) Await() Handover {
	m := <-x.hand
	x.settle(m)
	return m
}

// AwaitOr gives EVENT to the handler and waits for what it makes of it: SEND is the handler's watch
// channel. A handler that ends instead of taking the event says so in the Handover.
func AwaitOr[E any](x *Exchange, send chan<- E, event E) Handover {
	x.take()
	select {
	case send <- event:
		return x.Await()
	case m := <-x.hand:
		x.settle(m)
		return m
	}
}

func (x *Exchange) settle(m Handover) {
	if x.turn != nil {
		x.turn.of = nil
	}
	x.calling = m.Call
	if m.Done {
		x.running = false
		x.cancel()
	}
}

// Cancel ends the handler's context and waits until the handler has returned; what it still wrote is
// dropped. It does nothing to a handler that has returned already. A handler that waits for a call of its
// own has that call fail; its context stays as it is, for the API server would leave work behind that
// goes on by itself.
func (x *Exchange) Cancel() {
	x.Abandon()
	if !x.running {
		return
	}
	x.take()
	x.cancel()
	for x.running {
		x.settle(<-x.hand)
	}
}

// Running reports whether the handler has not returned yet: a watch that goes on.
func (x *Exchange) Running() bool { return x.running }

// Answer sends a handover's bytes: the whole answer when it is done, else the header and the first
// bytes of a stream. A panic breaks the connection, or the stream in HTTP/2.
func (x *Exchange) Answer(m Handover) {
	switch {
	case x.conn.Closed():
	case m.Panic != "":
		x.via.fail(fmt.Errorf("the handler of %s %s panicked: %s", x.Request.Method, x.Request.URL.Path, m.Panic))
		x.finish()
	case m.Done && !x.streaming:
		x.via.whole(x.Request, m)
		x.finish()
	default:
		if !x.streaming {
			x.streaming = true
			x.via.begin(m)
		}
		x.via.more(m.Body)
		if m.Done {
			x.EndStream()
		}
	}
}

// EndStream ends a stream in order, as a watch whose time is up ends.
func (x *Exchange) EndStream() {
	x.Cancel()
	if x.streaming {
		x.via.end()
	}
	x.finish()
}

// finish lets the connection go on without the exchange.
func (x *Exchange) finish() {
	x.conn.busy = slices.DeleteFunc(x.conn.busy, func(o *Exchange) bool { return o == x })
	x.via.done()
}

// Drop breaks the connection without an answer: the client sees it closed. In HTTP/2 it breaks the stream
// alone. The handler has returned by then.
func (x *Exchange) Drop() {
	x.Cancel()
	x.via.fail(nil)
	x.finish()
}

// Gone reports whether the client has given the exchange up: by closing its side of the connection, or by
// resetting the stream in HTTP/2.
func (x *Exchange) Gone() bool { return x.conn.Closed() || x.via.gone() }

// Pending is the number of bytes of the answer that wait for the client to make room, in the connection or
// the stream.
func (x *Exchange) Pending() int { return x.via.pending() }

// StreamID is the number of the exchange's stream in HTTP/2, 0 in HTTP/1.1.
func (x *Exchange) StreamID() int { return x.via.stream() }

type nopCloser struct{ *bytes.Reader }

func (nopCloser) Close() error { return nil }
