package wire

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"io"
	"iter"
	"net"
	"os"
	"time"

	"golang.org/x/net/http2"
)

// ErrWouldBlock is what a Stream's Read and Write return when they could not go on without waiting.
var ErrWouldBlock = errors.New("wire: would block")

// Stream is the world's end of a byte stream to a process. No method of it waits.
type Stream interface {
	// Read reads what is there: ErrWouldBlock when there is nothing yet, io.EOF at the end.
	Read(p []byte) (int, error)
	// Write takes as much as there is room for; a short count comes with ErrWouldBlock.
	Write(p []byte) (int, error)
	Close() error
}

// Options of a Conn. The zero value speaks plain HTTP.
type Options struct {
	// TLS, when set, makes the server speak TLS first. HTTP/2 is spoken if its NextProtos have "h2" and the
	// client takes that; put "http/1.1" before it, since most clients offer both.
	TLS *tls.Config
	// Now is the world's clock, for the Date header; nil leaves the header out.
	Now func() time.Time
	// MaxBody bounds a request's body in bytes; 0 means 16 MiB. A larger one is answered 413 and ends the
	// connection, or its stream in HTTP/2.
	MaxBody int64
}

// Conn is the server's side of one connection of a process.
type Conn struct {
	stream Stream
	opts   Options
	end    *endpoint // what TLS and the parser read from and write to
	out    []byte    // bytes that the stream had no room for
	next   func() (*Exchange, bool)
	stop   func()
	busy   []*Exchange // that are not yet answered, in the order in which they came; one in HTTP/1.1
	many   *h2         // set once the client speaks HTTP/2
	moved  int64       // bytes, either way
	broken bool        // the stream failed; Next or Close ends the connection
	closed bool
	err    error
}

// NewConn makes a Conn on a stream that a process has just opened.
func NewConn(s Stream, o Options) *Conn {
	if o.MaxBody == 0 {
		o.MaxBody = 16 << 20
	}
	c := &Conn{stream: s, opts: o}
	c.end = &endpoint{conn: c}
	return c
}

// Next reads what the process has sent and returns the next whole request, or nil when there is none
// yet, the last one is still unanswered (HTTP/1.1), or the connection has ended (Closed). In HTTP/2 it
// must be called while exchanges are under way too: it also reads what the client says of those.
func (c *Conn) Next() *Exchange {
	if c.closed || len(c.busy) > 0 && c.many == nil {
		return nil
	}
	if c.next == nil {
		// Not before now: a coroutine must be resumed under the same locking to an OS thread under which it
		// was made, and connections are made in the midst of a supervisor's work.
		c.next, c.stop = iter.Pull(c.serve)
	}
	x, more := c.next()
	if !more || c.broken {
		c.Close()
		return nil
	}
	if x == nil {
		return nil
	}
	c.busy = append(c.busy, x)
	return x
}

// Hangup reads what the process has sent although an exchange is under way, and reports whether the
// process has closed its side: the end of a watch that its client no longer wants. In HTTP/2 Next does
// this, and Exchange.Gone tells.
func (c *Conn) Hangup() bool {
	if c.Closed() {
		return true
	}
	if c.many != nil {
		return false
	}
	return c.end.fill() != nil && c.end.in.Len() == 0
}

// Closed reports whether the connection has ended or broken.
func (c *Conn) Closed() bool { return c.closed || c.broken }

// Err says why a connection ended other than by its process closing it between two requests.
func (c *Conn) Err() error { return c.err }

// Flush writes bytes that the process had no room for before. It reports whether all are written.
func (c *Conn) Flush() bool {
	for len(c.out) > 0 && !c.Closed() {
		n, err := c.stream.Write(c.out)
		c.out = c.out[n:]
		c.moved += int64(n)
		if errors.Is(err, ErrWouldBlock) {
			return false
		}
		if err != nil {
			c.fail(err)
		}
	}
	return true
}

// Pending is the number of bytes that wait for the process to make room.
func (c *Conn) Pending() int { return len(c.out) }

// Moved is the number of bytes that have been read and written so far: as long as it grows, the process may
// have something to do (a handshake to go on with, room to write again).
func (c *Conn) Moved() int64 { return c.moved }

// Close ends the connection. Exchanges under way are cancelled and their handlers have returned by then.
func (c *Conn) Close() {
	if c.closed {
		return
	}
	c.closed = true
	busy := c.busy
	c.busy = nil
	for _, x := range busy {
		x.Cancel()
	}
	c.end.err = net.ErrClosed
	if c.stop != nil {
		c.stop()
	}
	_ = c.stream.Close()
}

// fail breaks the connection. It may be called from within the coroutine, which cannot end itself, so
// that closing is left to Next or Close.
func (c *Conn) fail(err error) {
	if c.err == nil {
		c.err = err
	}
	c.broken = true
	c.out = nil
}

// serve is the coroutine: it yields an Exchange for each request, and nil each time it needs bytes that
// are not there yet (from within endpoint.Read, so that TLS and the parser need not know of it).
func (c *Conn) serve(yield func(*Exchange) bool) {
	c.end.wait = func() bool { return yield(nil) }
	var conn net.Conn = c.end
	if c.opts.TLS != nil {
		conn = tls.Server(c.end, c.opts.TLS)
	}
	c.end.secure = conn
	if err := c.converse(bufio.NewReader(conn), yield); err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, net.ErrClosed) {
		c.err = err
	}
}

// converse speaks what the client wants.
func (c *Conn) converse(br *bufio.Reader, yield func(*Exchange) bool) error {
	if t, ok := c.end.secure.(*tls.Conn); ok {
		if err := t.HandshakeContext(context.Background()); err != nil {
			return err
		}
		if t.ConnectionState().NegotiatedProtocol == http2.NextProtoTLS {
			return newH2(c, br).serve(yield)
		}
		return c.serveH1(br, yield)
	}
	// No request line of HTTP/1.1 begins so (RFC 9113 §3.4). An error is for the reader to meet again.
	if start, _ := br.Peek(4); string(start) == http2.ClientPreface[:4] {
		return newH2(c, br).serve(yield)
	}
	return c.serveH1(br, yield)
}

// write sends an answer's bytes, through TLS if there is any.
func (c *Conn) write(b []byte) {
	if c.Closed() || len(b) == 0 {
		return
	}
	if _, err := c.end.secure.Write(b); err != nil {
		c.fail(err)
	}
}

// endpoint is a net.Conn over the stream for TLS and the parser. Reading from it when nothing is there
// hands the turn back to the world.
type endpoint struct {
	conn   *Conn
	secure net.Conn // the endpoint itself or TLS upon it
	in     bytes.Buffer
	buf    []byte // for fill, which is asked often and finds nothing most of the time
	err    error  // what the stream ended with
	wait   func() bool
}

// fill takes what the stream has and returns its end, if that has come.
func (e *endpoint) fill() error {
	if e.buf == nil {
		e.buf = make([]byte, 32<<10)
	}
	for e.err == nil {
		n, err := e.conn.stream.Read(e.buf)
		e.in.Write(e.buf[:n])
		e.conn.moved += int64(n)
		if errors.Is(err, ErrWouldBlock) {
			break
		}
		e.err = err
	}
	return e.err
}

func (e *endpoint) Read(p []byte) (int, error) {
	for {
		if e.in.Len() > 0 {
			return e.in.Read(p)
		}
		if err := e.fill(); e.in.Len() > 0 {
			continue
		} else if err != nil {
			return 0, err
		}
		if !e.wait() {
			return 0, net.ErrClosed
		}
	}
}

func (e *endpoint) Write(p []byte) (int, error) {
	if e.conn.Closed() {
		return 0, net.ErrClosed
	}
	e.conn.out = append(e.conn.out, p...)
	e.conn.Flush()
	return len(p), nil
}

func (e *endpoint) Close() error { return nil }

// The addresses are the world's, not the machine's.
func (e *endpoint) LocalAddr() net.Addr { return &net.TCPAddr{IP: net.IPv4(10, 0, 0, 1), Port: 443} }

func (e *endpoint) RemoteAddr() net.Addr {
	return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 40000}
}

func (e *endpoint) SetDeadline(time.Time) error      { return os.ErrNoDeadline }
func (e *endpoint) SetReadDeadline(time.Time) error  { return os.ErrNoDeadline }
func (e *endpoint) SetWriteDeadline(time.Time) error { return nil }
