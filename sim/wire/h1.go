package wire

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net/http"
	"strconv"
)

// h1 is an exchange's place on a connection that speaks HTTP/1.1: the whole of it.
type h1 struct {
	conn       *Conn
	closeAfter bool
}

// serveH1 yields one exchange after the other.
func (c *Conn) serveH1(br *bufio.Reader, yield func(*Exchange) bool) error {
	for {
		x, closeAfter, err := c.read(br)
		if err != nil {
			return err
		}
		// Between two requests of a kept connection the world answers the first; Next is not called before.
		if !yield(x) || closeAfter {
			return nil
		}
	}
}

func (c *Conn) read(br *bufio.Reader) (x *Exchange, closeAfter bool, err error) {
	req, err := http.ReadRequest(br)
	if err != nil {
		return nil, false, err
	}
	body, err := io.ReadAll(io.LimitReader(req.Body, c.opts.MaxBody+1))
	if err != nil {
		return nil, false, fmt.Errorf("reading the body of %s %s: %w", req.Method, req.URL.Path, err)
	}
	if int64(len(body)) > c.opts.MaxBody {
		_, _ = io.WriteString(c.end.secure, "HTTP/1.1 413 Request Entity Too Large\r\nConnection: close\r\nContent-Length: 0\r\n\r\n")
		return nil, false, fmt.Errorf("the body of %s %s is larger than %d bytes", req.Method, req.URL.Path, c.opts.MaxBody)
	}
	req.Body = io.NopCloser(bytes.NewReader(body))
	req.ContentLength = int64(len(body))
	req.TransferEncoding = nil
	return &Exchange{conn: c, via: &h1{conn: c, closeAfter: req.Close}, Request: req, Body: body}, req.Close, nil
}

func (p *h1) whole(r *http.Request, m Handover) {
	length, body, has := payload(r, m)
	if !has {
		p.header(m, "", "")
		return
	}
	p.header(m, "Content-Length", length)
	p.conn.write(body)
}

// payload is what an answer's body and the length that its header says are; has is false where there is
// neither.
func payload(r *http.Request, m Handover) (length string, body []byte, has bool) {
	if m.Code == http.StatusNoContent || m.Code == http.StatusNotModified {
		return "", nil, false
	}
	length = strconv.Itoa(len(m.Body))
	if r.Method != http.MethodHead {
		return length, m.Body, true
	}
	if l := m.Header.Get("Content-Length"); l != "" {
		length = l
	}
	return length, nil, true
}

func (p *h1) begin(m Handover) { p.header(m, "Transfer-Encoding", "chunked") }

func (p *h1) header(m Handover, key, value string) {
	h := m.Header.Clone()
	if h == nil {
		h = http.Header{}
	}
	if key != "" {
		h.Set(key, value)
	}
	if p.conn.opts.Now != nil {
		h.Set("Date", p.conn.opts.Now().UTC().Format(http.TimeFormat))
	}
	if p.closeAfter {
		h.Set("Connection", "close")
	}
	var b bytes.Buffer
	fmt.Fprintf(&b, "HTTP/1.1 %d %s\r\n", m.Code, http.StatusText(m.Code))
	_ = h.Write(&b) // sorted by key
	b.WriteString("\r\n")
	p.conn.write(b.Bytes())
}

func (p *h1) more(b []byte) {
	if len(b) > 0 {
		p.conn.write(fmt.Appendf(nil, "%x\r\n%s\r\n", len(b), b))
	}
}

func (p *h1) end() { p.conn.write([]byte("0\r\n\r\n")) }

// done closes the connection if the client asked for that.
func (p *h1) done() {
	if p.closeAfter {
		p.conn.Close()
	}
}

func (p *h1) fail(err error) {
	if err == nil {
		p.conn.Close()
		return
	}
	p.conn.fail(err)
}

func (p *h1) gone() bool   { return p.conn.Hangup() }
func (p *h1) pending() int { return p.conn.Pending() }
func (p *h1) stream() int  { return 0 }
