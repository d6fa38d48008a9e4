package wire

import (
	"bufio"
	"bytes"
	"context"
	"crypto/ed25519"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"
)

// duplex is a byte stream between a client that may block and the world, which never does. changed is
// signalled whenever the client has written or closed.
type duplex struct {
	mu      sync.Mutex
	cond    *sync.Cond
	toWorld bytes.Buffer
	toPeer  bytes.Buffer
	peerEnd bool // the client closed
	ended   bool // the world closed
	room    int  // how many bytes the client has room for; -1 unbounded
	changed chan struct{}
}

func newDuplex() *duplex {
	d := &duplex{room: -1, changed: make(chan struct{}, 1)}
	d.cond = sync.NewCond(&d.mu)
	return d
}

func (d *duplex) signal() {
	select {
	case d.changed <- struct{}{}:
	default:
	}
}

func (d *duplex) Read(p []byte) (int, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.toWorld.Len() > 0 {
		return d.toWorld.Read(p)
	}
	if d.peerEnd {
		return 0, io.EOF
	}
	return 0, ErrWouldBlock
}

func (d *duplex) Write(p []byte) (int, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	n := len(p)
	if d.room >= 0 && d.room < n {
		n = d.room
	}
	d.toPeer.Write(p[:n])
	d.cond.Broadcast()
	if d.room >= 0 {
		d.room -= n
	}
	if n < len(p) {
		return n, ErrWouldBlock
	}
	return n, nil
}

func (d *duplex) Close() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.ended = true
	d.cond.Broadcast()
	return nil
}

// peer is the client's net.Conn.
type peer struct{ d *duplex }

func (p peer) Read(b []byte) (int, error) {
	p.d.mu.Lock()
	defer p.d.mu.Unlock()
	for p.d.toPeer.Len() == 0 {
		if p.d.ended || p.d.peerEnd {
			return 0, io.EOF
		}
		p.d.cond.Wait()
	}
	return p.d.toPeer.Read(b)
}

func (p peer) Write(b []byte) (int, error) {
	p.d.mu.Lock()
	p.d.toWorld.Write(b)
	p.d.mu.Unlock()
	p.d.signal()
	return len(b), nil
}

func (p peer) Close() error {
	p.d.mu.Lock()
	p.d.peerEnd = true
	p.d.cond.Broadcast()
	p.d.mu.Unlock()
	p.d.signal()
	return nil
}
func (peer) LocalAddr() net.Addr              { return &net.TCPAddr{} }
func (peer) RemoteAddr() net.Addr             { return &net.TCPAddr{} }
func (peer) SetDeadline(time.Time) error      { return nil }
func (peer) SetReadDeadline(time.Time) error  { return nil }
func (peer) SetWriteDeadline(time.Time) error { return nil }

// drive is a world that answers each request at once, until stop.
func drive(c *Conn, d *duplex, h http.Handler, stop <-chan struct{}) {
	for !c.Closed() {
		for x := c.Next(); x != nil; x = c.Next() {
			x.Answer(x.Run(context.Background(), h))
		}
		select {
		case <-d.changed:
		case <-stop:
			c.Close()
		}
	}
}

func client(d *duplex, root *x509.CertPool) *http.Client {
	tr := &http.Transport{
		DialContext: func(context.Context, string, string) (net.Conn, error) { return peer{d}, nil },
	}
	if root != nil {
		tr.TLSClientConfig = &tls.Config{RootCAs: root, ServerName: "kubernetes.default.svc"}
		tr.ForceAttemptHTTP2 = true // offer h2: the server must choose http/1.1
	}
	return &http.Client{Transport: tr}
}

func serverTLS(t *testing.T) (*tls.Config, *x509.CertPool) {
	t.Helper()
	key := ed25519.NewKeyFromSeed(make([]byte, 32))
	tmpl := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "w"}, IsCA: true, BasicConstraintsValid: true,
		NotBefore: time.Unix(0, 0), NotAfter: time.Now().Add(1e6 * time.Hour), DNSNames: []string{"kubernetes.default.svc"},
	}
	der, err := x509.CreateCertificate(nil, tmpl, tmpl, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	pool.AddCert(cert)
	return &tls.Config{Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}}, NextProtos: []string{"http/1.1"}}, pool
}

func TestNetHTTPClientsAreServed(t *testing.T) {
	tlsConfig, pool := serverTLS(t)
	h := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Errorf("body: %v", err)
		}
		w.Header().Set("X-Len", fmt.Sprint(len(body)))
		if r.URL.Path == "/gone" {
			w.WriteHeader(http.StatusGone)
			return
		}
		fmt.Fprintf(w, "%s %s %d", r.Method, r.URL.RequestURI(), len(body))
	})
	for name, o := range map[string]Options{"plain": {}, "tls": {TLS: tlsConfig}} {
		t.Run(name, func(t *testing.T) {
			d := newDuplex()
			scheme, roots := "http", (*x509.CertPool)(nil)
			if o.TLS != nil {
				scheme, roots = "https", pool
			}
			o.Now = func() time.Time { return time.Date(2020, 1, 2, 3, 4, 5, 0, time.UTC) }
			stop, done := make(chan struct{}), make(chan struct{})
			c := NewConn(d, o)
			go func() { drive(c, d, h, stop); close(done) }()
			defer func() { close(stop); <-done }()
			cl := client(d, roots)

			for _, c := range []struct {
				method, path string
				body         string
				code         int
				want         string
			}{
				{"GET", "/api/v1/pods?limit=5", "", 200, "GET /api/v1/pods?limit=5 0"},
				{"POST", "/api", strings.Repeat("x", 300_000), 200, "POST /api 300000"},
				{"DELETE", "/gone", "", 410, ""},
				{"GET", "/again", "", 200, "GET /again 0"},
			} {
				req, err := http.NewRequestWithContext(context.Background(), c.method, scheme+"://w"+c.path, strings.NewReader(c.body))
				if err != nil {
					t.Fatal(err)
				}
				resp, err := cl.Do(req)
				if err != nil {
					t.Fatalf("%s %s: %v", c.method, c.path, err)
				}
				got, err := io.ReadAll(resp.Body)
				_ = resp.Body.Close()
				if err != nil || resp.StatusCode != c.code || string(got) != c.want {
					t.Errorf("%s %s: %d %q %v, want %d %q", c.method, c.path, resp.StatusCode, got, err, c.code, c.want)
				}
				if date := resp.Header.Get("Date"); date != "Thu, 02 Jan 2020 03:04:05 GMT" {
					t.Errorf("Date %q is not the world's", date)
				}
			}
		})
	}
}

// watchHandler writes each event it is given and flushes once, and twice after a bookmark, as the API server's does.
func watchHandler(x *Exchange, events <-chan string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		x.Stream()
		f := w.(http.Flusher)
		f.Flush()
		for {
			select {
			case <-r.Context().Done():
				return
			case e, ok := <-events:
				if !ok {
					return
				}
				_, _ = io.WriteString(w, e)
				f.Flush()
				if e == "bookmark" {
					f.Flush()
				}
			}
		}
	})
}

func request(t *testing.T, c *Conn, d *duplex, raw string) *Exchange {
	t.Helper()
	_, _ = peer{d}.Write([]byte(raw))
	x := c.Next()
	if x == nil {
		t.Fatalf("no exchange from %q (closed %v, %v)", raw, c.Closed(), c.Err())
	}
	return x
}

func TestWatchIsHandedOverEventByEvent(t *testing.T) {
	d := newDuplex()
	c := NewConn(d, Options{})
	events := make(chan string)
	x := request(t, c, d, "GET /w HTTP/1.1\r\nHost: w\r\n\r\n")
	x.Answer(x.Run(context.Background(), watchHandler(x, events)))
	var seen []string
	for _, e := range []string{"a", "bookmark", "b"} {
		m := AwaitOr(x, events, e)
		seen = append(seen, string(m.Body))
		x.Answer(m)
	}
	if got := strings.Join(seen, ","); got != "a,bookmark,b" {
		t.Errorf("handed over %s", got)
	}
	if c.Next() != nil {
		t.Error("a request while the watch goes on")
	}
	x.EndStream()
	if x.Running() {
		t.Error("the handler outlived the stream")
	}
	resp, err := http.ReadResponse(bufio.NewReader(bytes.NewReader(d.toPeer.Bytes())), nil)
	if err != nil {
		t.Fatal(err)
	}
	body, err := io.ReadAll(resp.Body)
	_ = resp.Body.Close()
	if err != nil || string(body) != "abookmarkb" {
		t.Errorf("the client read %q, %v", body, err)
	}
	// the connection is good for another request
	y := request(t, c, d, "GET /x HTTP/1.1\r\nHost: w\r\nConnection: close\r\n\r\n")
	y.Answer(y.Run(context.Background(), http.NotFoundHandler()))
	if c.Next() != nil || !c.Closed() {
		t.Error("Connection: close did not close")
	}
}

func TestHandlerEndsInsteadOfTakingAnEvent(t *testing.T) {
	d := newDuplex()
	c := NewConn(d, Options{})
	x := request(t, c, d, "GET /w HTTP/1.1\r\nHost: w\r\n\r\n")
	events := make(chan string)
	x.Answer(x.Run(context.Background(), watchHandler(x, events)))
	close(events) // the store ends the watch
	if m := AwaitOr(x, make(chan string), "never"); !m.Done {
		t.Errorf("not done: %+v", m)
	}
}

func TestClientHangsUpAWatch(t *testing.T) {
	d := newDuplex()
	c := NewConn(d, Options{})
	x := request(t, c, d, "GET /w HTTP/1.1\r\nHost: w\r\n\r\n")
	x.Answer(x.Run(context.Background(), watchHandler(x, make(chan string))))
	if c.Hangup() {
		t.Fatal("hung up before the client did")
	}
	_ = peer{d}.Close()
	if !c.Hangup() {
		t.Fatal("the end was not seen")
	}
	c.Close()
	if x.Running() {
		t.Error("the handler outlived its connection")
	}
}

func TestRequestsComeWholeHoweverTheBytesAreCut(t *testing.T) {
	raw := "POST /a HTTP/1.1\r\nHost: w\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n"
	for cut := 1; cut < len(raw); cut++ {
		d := newDuplex()
		c := NewConn(d, Options{})
		_, _ = peer{d}.Write([]byte(raw[:cut]))
		if x := c.Next(); x != nil {
			t.Fatalf("cut %d: a request from a part of one", cut)
		}
		_, _ = peer{d}.Write([]byte(raw[cut:]))
		x := c.Next()
		if x == nil || string(x.Body) != "hello" {
			t.Fatalf("cut %d: %+v", cut, x)
		}
		c.Close()
	}
}

func TestFaultyPeers(t *testing.T) {
	for name, raw := range map[string]string{
		"no HTTP":        "\x16\x03\x01\x02\x00 not http\r\n\r\n",
		"body too large": "POST / HTTP/1.1\r\nHost: w\r\nContent-Length: 2000\r\n\r\n" + strings.Repeat("x", 2000),
	} {
		d := newDuplex()
		c := NewConn(d, Options{MaxBody: 1000})
		_, _ = peer{d}.Write([]byte(raw))
		if x := c.Next(); x != nil || !c.Closed() || c.Err() == nil {
			t.Errorf("%s: exchange %v, closed %v, err %v", name, x, c.Closed(), c.Err())
		}
	}
}

func TestPanicBreaksTheConnection(t *testing.T) {
	d := newDuplex()
	c := NewConn(d, Options{})
	x := request(t, c, d, "GET / HTTP/1.1\r\nHost: w\r\n\r\n")
	x.Answer(x.Run(context.Background(), http.HandlerFunc(func(http.ResponseWriter, *http.Request) { panic("boom") })))
	if !c.Closed() || !strings.Contains(c.Err().Error(), "boom") {
		t.Errorf("closed %v, err %v", c.Closed(), c.Err())
	}
	if d.toPeer.Len() != 0 {
		t.Errorf("the client was sent %q", d.toPeer.String())
	}
}

func TestSlowReaderIsWaitedFor(t *testing.T) {
	d := newDuplex()
	d.room = 10
	c := NewConn(d, Options{})
	x := request(t, c, d, "GET / HTTP/1.1\r\nHost: w\r\n\r\n")
	x.Answer(x.Run(context.Background(), http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "0123456789") })))
	if c.Pending() == 0 || d.toPeer.Len() != 10 {
		t.Fatalf("pending %d, sent %d", c.Pending(), d.toPeer.Len())
	}
	d.room = -1
	if !c.Flush() || !strings.HasSuffix(d.toPeer.String(), "0123456789") {
		t.Errorf("sent %q", d.toPeer.String())
	}
}

func FuzzConn(f *testing.F) {
	f.Add([]byte("GET / HTTP/1.1\r\nHost: w\r\n\r\n"), 3)
	f.Add([]byte("POST / HTTP/1.1\r\nHost: w\r\nContent-Length: 3\r\n\r\nabcGET"), 40)
	f.Fuzz(func(t *testing.T, raw []byte, cut int) {
		d := newDuplex()
		c := NewConn(d, Options{MaxBody: 1 << 16})
		if cut = min(max(cut, 0), len(raw)); cut > 0 {
			_, _ = peer{d}.Write(raw[:cut])
		}
		for range 2 {
			for x := c.Next(); x != nil; x = c.Next() {
				x.Answer(x.Run(context.Background(), http.NotFoundHandler()))
			}
			_, _ = peer{d}.Write(raw[cut:])
		}
		c.Close()
	})
}
