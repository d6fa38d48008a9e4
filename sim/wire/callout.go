package wire

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"iter"
	"net/http"
)

// ErrNoExchange is returned by Out to a handler that no exchange runs: nobody could take the turn.
var ErrNoExchange = errors.New("wire: this handler cannot call out: it does not run within an exchange")

// errAbandoned is what a handler's call ends with when nobody waits for the handler any more.
var errAbandoned = errors.New("wire: the client has gone")

// CallOut is a call that a handler makes to a process of the world while it handles another: a webhook.
type CallOut struct {
	Request *http.Request // to be sent; its URL's host is where to
	Body    []byte
	TLS     *tls.Config // nil: plain HTTP

	back chan struct{} // closed with the answer
	resp *http.Response
	err  error
}

type exchangeKey struct{}

// CanCallOut reports whether a handler with this context may use Out.
func CanCallOut(ctx context.Context) bool {
	_, ok := ctx.Value(exchangeKey{}).(*Exchange)
	return ok
}

// Turn knows which handler runs, of all whose exchanges were Run with a context of its With: the world waits for
// one at a time. It serves calls of code that is given no context.
type Turn struct{ of *Exchange }

type turnKey struct{}

// With makes exchanges that are Run with the returned context take the turn.
func (t *Turn) With(ctx context.Context) context.Context { return context.WithValue(ctx, turnKey{}, t) }

// Out is the function Out for the handler that runs, from whose goroutines it must be called.
func (t *Turn) Out(c *CallOut) (*http.Response, error) {
	if t.of == nil {
		return nil, ErrNoExchange
	}
	return t.of.out(c)
}

// take says that the world waits for the exchange's handler.
func (x *Exchange) take() {
	if x.turn != nil {
		x.turn.of = x
	}
}

// Out hands the turn back to the world with a call to be made, from within a handler, and waits for its
// answer. Nothing of the handler may run meanwhile: a handler that calls out in several goroutines
// must do so from one at a time.
func Out(ctx context.Context, c *CallOut) (*http.Response, error) {
	x, ok := ctx.Value(exchangeKey{}).(*Exchange)
	if !ok {
		return nil, ErrNoExchange
	}
	return x.out(c)
}

func (x *Exchange) out(c *CallOut) (*http.Response, error) {
	c.back = make(chan struct{})
	x.hand <- Handover{Call: c}
	<-c.back
	return c.resp, c.err
}

// Resume gives a handler the answer that it waits for and waits until it hands over again.
func (x *Exchange) Resume(c *CallOut, resp *http.Response, err error) Handover {
	c.resp, c.err = resp, err
	x.calling = nil
	x.take()
	close(c.back)
	return x.Await()
}

// Abandon fails the call that the handler waits for, and any further one, until it has returned.
func (x *Exchange) Abandon() (m Handover) {
	for x.calling != nil {
		m = x.Resume(x.calling, nil, errAbandoned)
	}
	return m
}

// Client is the world's side of a connection that it has made into a process, for one CallOut.
type Client struct {
	conn   *Conn
	call   *CallOut
	next   func() (bool, bool)
	stop   func()
	resp   *http.Response
	err    error
	closed bool
}

// NewClient makes a Client on a stream into a process.
func NewClient(s Stream, call *CallOut) *Client {
	return &Client{call: call, conn: NewConn(s, Options{})}
}

// Poll sends and reads what it can without waiting. moved says whether any byte went either way, done
// that Result has the answer.
func (c *Client) Poll() (moved, done bool) {
	if c.closed || c.resp != nil || c.err != nil {
		return false, true
	}
	before := c.conn.moved
	c.conn.Flush()
	if c.next == nil { // see Conn.Next
		c.next, c.stop = iter.Pull(c.run)
	}
	if _, more := c.next(); !more && c.resp == nil && c.err == nil {
		c.err = io.ErrUnexpectedEOF
	}
	if c.conn.broken && c.resp == nil {
		c.err = c.conn.err
	}
	return c.conn.moved != before, c.resp != nil || c.err != nil
}

// Result is the answer, its body read, or why there is none.
func (c *Client) Result() (*http.Response, error) { return c.resp, c.err }

// Close ends the connection.
func (c *Client) Close() {
	if c.closed {
		return
	}
	c.closed = true
	if c.conn.end.secure != nil && c.resp != nil {
		_ = c.conn.end.secure.Close() // TLS says goodbye
	}
	c.conn.Close()
	if c.stop != nil {
		c.stop()
	}
}

// run is the coroutine: it yields each time it needs bytes that are not there yet.
func (c *Client) run(yield func(bool) bool) {
	end := c.conn.end
	end.wait = func() bool { return yield(false) }
	end.secure = end
	if c.call.TLS != nil {
		end.secure = tls.Client(end, c.call.TLS)
	}
	c.resp, c.err = c.exchange(end.secure) //nolint:bodyclose // a buffer
}

func (c *Client) exchange(rw io.ReadWriter) (*http.Response, error) {
	req := c.call.Request.Clone(context.Background())
	req.Body, req.ContentLength = io.NopCloser(bytes.NewReader(c.call.Body)), int64(len(c.call.Body))
	var b bytes.Buffer
	if err := req.Write(&b); err != nil {
		return nil, err
	}
	if _, err := rw.Write(b.Bytes()); err != nil {
		return nil, err
	}
	resp, err := http.ReadResponse(bufio.NewReader(rw), req) //nolint:bodyclose // it is replaced by a buffer
	if err != nil {
		return nil, err
	}
	const most = 16 << 20
	body, err := io.ReadAll(io.LimitReader(resp.Body, most+1))
	if err == nil && len(body) > most {
		err = fmt.Errorf("the answer to %s %s is larger than %d bytes", req.Method, req.URL, most)
	}
	if err != nil {
		return nil, err
	}
	resp.Body = io.NopCloser(bytes.NewReader(body))
	return resp, nil
}
