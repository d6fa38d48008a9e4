package wire

import (
	"bytes"
	"context"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

// h2Transport is Go's HTTP/2 client on a duplex, in cleartext or with TLS that offers nothing else.
func h2Transport(d *duplex, root *x509.CertPool) *http2.Transport {
	if root == nil {
		return &http2.Transport{
			AllowHTTP:      true,
			DialTLSContext: func(context.Context, string, string, *tls.Config) (net.Conn, error) { return peer{d}, nil },
		}
	}
	return &http2.Transport{
		TLSClientConfig: &tls.Config{RootCAs: root, ServerName: "kubernetes.default.svc"},
		DialTLSContext: func(ctx context.Context, _, _ string, c *tls.Config) (net.Conn, error) {
			t := tls.Client(peer{d}, c)
			return t, t.HandshakeContext(ctx)
		},
	}
}

// ask makes a request.
func ask(t *testing.T, cl *http.Client, method, url string, body []byte) (*http.Response, error) {
	req, err := http.NewRequestWithContext(t.Context(), method, url, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	return cl.Do(req)
}

// overH2 runs f for both ways to HTTP/2.
func overH2(t *testing.T, f func(t *testing.T, c *Conn, d *duplex, cl *http.Client, url string)) {
	tlsConfig, pool := serverTLS(t)
	tlsConfig.NextProtos = []string{"http/1.1", "h2"}
	for name, o := range map[string]Options{"plain": {}, "tls": {TLS: tlsConfig}} {
		t.Run(name, func(t *testing.T) {
			d := newDuplex()
			url, root := "http://w", (*x509.CertPool)(nil)
			if o.TLS != nil {
				url, root = "https://w", pool
			}
			o.Now = func() time.Time { return time.Date(2020, 1, 2, 3, 4, 5, 0, time.UTC) }
			f(t, NewConn(d, o), d, &http.Client{Transport: h2Transport(d, root)}, url)
		})
	}
}

// echo answers with a body of the length that the query asks for, and the hash of the request's.
func echo(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	var n int
	_, _ = fmt.Sscan(r.URL.Query().Get("n"), &n)
	w.Header().Set("X-Sum", fmt.Sprintf("%s %d %x %s", r.Proto, r.ContentLength, sha256.Sum256(body), r.Host))
	w.Header().Set("Transfer-Encoding", "chunked") // as the API server's watches, and not for HTTP/2
	if r.URL.Path == "/gone" {
		w.WriteHeader(http.StatusGone)
		return
	}
	_, _ = w.Write(bytes.Repeat([]byte("y"), n))
}

// Bodies far larger than any window pass both ways, many at a time, and answers find their requests.
func TestH2ClientsAreServed(t *testing.T) {
	overH2(t, func(t *testing.T, c *Conn, d *duplex, cl *http.Client, url string) {
		stop, done := make(chan struct{}), make(chan struct{})
		go func() { drive(c, d, http.HandlerFunc(echo), stop); close(done) }()
		defer func() { close(stop); <-done }()
		var wg sync.WaitGroup
		for i := range 12 {
			wg.Go(func() {
				body := bytes.Repeat([]byte{byte(i)}, i*150_000)
				n := (12 - i) * 1_000_000 // over 4 MB, the client's window, and below
				resp, err := ask(t, cl, http.MethodPost, fmt.Sprintf("%s/x?n=%d", url, n), body)
				if err != nil {
					t.Errorf("%d: %v", i, err)
					return
				}
				got, err := io.ReadAll(resp.Body)
				_ = resp.Body.Close()
				want := fmt.Sprintf("HTTP/2.0 %d %x w", len(body), sha256.Sum256(body))
				if err != nil || len(got) != n || resp.ContentLength != int64(n) || resp.Header.Get("X-Sum") != want {
					t.Errorf("%d: %d bytes of %d, %v, %s, want %s", i, len(got), n, err, resp.Header, want)
				}
				if date := resp.Header.Get("Date"); date != "Thu, 02 Jan 2020 03:04:05 GMT" {
					t.Errorf("Date %q is not the world's", date)
				}
			})
		}
		wg.Wait()
		req, _ := http.NewRequestWithContext(t.Context(), http.MethodDelete, url+"/gone", nil)
		resp, err := cl.Do(req)
		if err != nil || resp.StatusCode != http.StatusGone {
			t.Fatalf("%v %v", resp, err)
		}
		_ = resp.Body.Close()
		resp, err = ask(t, cl, http.MethodHead, url+"/head?n=7", nil)
		if err != nil || resp.ContentLength != 7 {
			t.Fatalf("HEAD: %v %v", resp, err)
		}
		_ = resp.Body.Close()
	})
}

// A client that offers both gets HTTP/1.1, and one that offers nothing too.
func TestH1IsPreferred(t *testing.T) {
	tlsConfig, pool := serverTLS(t)
	tlsConfig.NextProtos = []string{"http/1.1", "h2"}
	for _, offer := range [][]string{{"h2", "http/1.1"}, nil} {
		d := newDuplex()
		c := NewConn(d, Options{TLS: tlsConfig})
		stop, done := make(chan struct{}), make(chan struct{})
		go func() { drive(c, d, http.HandlerFunc(echo), stop); close(done) }()
		cl := &http.Client{Transport: &http.Transport{DialTLSContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			t := tls.Client(peer{d}, &tls.Config{RootCAs: pool, ServerName: "kubernetes.default.svc", NextProtos: offer})
			return t, t.HandshakeContext(ctx)
		}}}
		resp, err := ask(t, cl, http.MethodGet, "https://w/", nil)
		if err != nil {
			t.Fatal(err)
		}
		_ = resp.Body.Close()
		if got := resp.Header.Get("X-Sum"); !strings.HasPrefix(got, "HTTP/1.1 ") {
			t.Errorf("offered %q: %s", offer, got)
		}
		close(stop)
		<-done
	}
}

// next waits for the client to send what makes a request whole, or what END says.
func next(c *Conn, d *duplex, end func() bool) *Exchange {
	for {
		if x := c.Next(); x != nil || end() {
			return x
		}
		<-d.changed
	}
}

// A watch goes on while other requests come and go, and ends when its client resets it, or in order.
func TestH2Watch(t *testing.T) {
	overH2(t, func(t *testing.T, c *Conn, d *duplex, cl *http.Client, url string) {
		defer c.Close()
		never := func() bool { return false }
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		got := make(chan string)
		get := func(ctx context.Context, path string) {
			req, _ := http.NewRequestWithContext(ctx, http.MethodGet, url+path, nil)
			resp, err := cl.Do(req)
			if err != nil {
				got <- err.Error()
				return
			}
			buf := make([]byte, 100)
			for {
				n, err := resp.Body.Read(buf)
				if n > 0 {
					got <- string(buf[:n])
				}
				if err != nil {
					got <- err.Error()
					_ = resp.Body.Close()
					return
				}
			}
		}
		want := func(text string) {
			t.Helper()
			for { // the client may wait for us to read its window updates, and we for nothing
				select {
				case g := <-got:
					if g != text {
						t.Fatalf("got %q, want %q", g, text)
					}
					return
				case <-d.changed:
					c.Next()
				}
			}
		}
		for _, how := range []string{"reset", "end", "drop"} {
			go get(ctx, "/w")
			x := next(c, d, never)
			events := make(chan string)
			x.Answer(x.Run(context.Background(), watchHandler(x, events)))
			x.Answer(AwaitOr(x, events, "a"))
			want("a")
			go get(t.Context(), "/x?n=3")
			y := next(c, d, never)
			y.Answer(y.Run(context.Background(), http.HandlerFunc(echo)))
			want("yyy")
			want("EOF")
			x.Answer(AwaitOr(x, events, "b"))
			want("b")
			if x.Gone() {
				t.Error("gone before it went")
			}
			switch how {
			case "reset":
				cancel()
				want("context canceled")
				if z := next(c, d, x.Gone); z != nil {
					t.Error("another exchange")
				}
				x.Drop()
			case "end":
				x.EndStream()
				want("EOF")
			case "drop":
				x.Drop()
				want(fmt.Sprintf("stream error: stream ID %d; INTERNAL_ERROR; received from peer", x.StreamID()))
			}
			if x.Running() {
				t.Error("the handler outlived its stream")
			}
			ctx = t.Context()
		}
		if c.Closed() {
			t.Error("the connection ended with a stream")
		}
		if n := len(c.many.streams) + len(c.busy); n != 0 {
			t.Errorf("%d streams are left", n)
		}
	})
}

// frames is a client that writes frames as it likes.
type frames struct {
	*http2.Framer
	out bytes.Buffer
	hb  bytes.Buffer
	enc *hpack.Encoder
}

func newFrames() *frames {
	f := &frames{}
	f.out.WriteString(http2.ClientPreface)
	f.Framer = http2.NewFramer(&f.out, nil)
	f.AllowIllegalWrites = true
	f.enc = hpack.NewEncoder(&f.hb)
	return f
}

func (f *frames) block(kv ...string) []byte {
	f.hb.Reset()
	for i := 0; i < len(kv); i += 2 {
		_ = f.enc.WriteField(hpack.HeaderField{Name: kv[i], Value: kv[i+1]})
	}
	return bytes.Clone(f.hb.Bytes())
}

func (f *frames) headers(id uint32, end bool, kv ...string) {
	_ = f.WriteHeaders(http2.HeadersFrameParam{StreamID: id, EndStream: end, EndHeaders: true, BlockFragment: f.block(kv...)})
}

func (f *frames) get(id uint32, path string) {
	f.headers(id, true, ":method", "GET", ":scheme", "http", ":authority", "w", ":path", path)
}

func (f *frames) post(id uint32, more ...string) {
	f.headers(id, false, append([]string{":method", "POST", ":scheme", "http", ":authority", "w", ":path", "/p"}, more...)...)
}

// sent is what the server has sent, in words.
func sent(t *testing.T, raw []byte) string {
	t.Helper()
	fr := http2.NewFramer(nil, bytes.NewReader(raw))
	fr.ReadMetaHeaders = hpack.NewDecoder(4096, nil)
	var words []string
	for {
		f, err := fr.ReadFrame()
		if err != nil {
			if !errors.Is(err, io.EOF) {
				t.Errorf("the server sent what is no frame: %v", err)
			}
			return strings.Join(words, ", ")
		}
		switch f := f.(type) {
		case *http2.SettingsFrame:
			if f.IsAck() {
				words = append(words, "ack")
			}
		case *http2.MetaHeadersFrame:
			words = append(words, fmt.Sprintf("%d: %s", f.StreamID, f.PseudoValue("status")))
			for _, field := range f.RegularFields() {
				if field.Name == "transfer-encoding" {
					words = append(words, "what HTTP/2 has not")
				}
			}
			if f.StreamEnded() {
				words = append(words, "end")
			}
		case *http2.DataFrame:
			words = append(words, fmt.Sprintf("%d: %d bytes", f.StreamID, len(f.Data())))
			if f.StreamEnded() {
				words = append(words, "end")
			}
		case *http2.RSTStreamFrame:
			words = append(words, fmt.Sprintf("%d: %v", f.StreamID, f.ErrCode))
		case *http2.GoAwayFrame:
			words = append(words, fmt.Sprintf("goaway after %d: %v", f.LastStreamID, f.ErrCode))
		case *http2.WindowUpdateFrame:
			words = append(words, fmt.Sprintf("%d: room", f.StreamID))
		case *http2.PingFrame:
			words = append(words, "pong")
		}
	}
}

// serveAll answers all that comes, and says what was asked.
func serveAll(c *Conn) (asked []string) {
	for x := c.Next(); x != nil; x = c.Next() {
		asked = append(asked, fmt.Sprintf("%s %s %d %s", x.Request.Method, x.Request.RequestURI, len(x.Body), x.Request.Header.Get("X-Long")))
		x.Answer(x.Run(context.Background(), http.HandlerFunc(echo)))
	}
	return asked
}

// What a client may do, and what it must not, and what becomes of its connection.
func TestH2Frames(t *testing.T) {
	long := strings.Repeat("z", 10_000)
	get := []string{":method", "GET", ":scheme", "http", ":path", "/"}
	for _, c := range []struct {
		name  string
		do    func(f *frames)
		asked string
		sent  string
		ended bool
	}{
		{"ping", func(f *frames) { _ = f.WritePing(false, [8]byte{1}); _ = f.WritePing(true, [8]byte{1}) }, "", "pong", false},
		{"unknown frame, goaway, priority", func(f *frames) {
			_ = f.WriteRawFrame(0x42, 0, 0, []byte("?"))
			_ = f.WriteGoAway(0, 0, nil)
			_ = f.WritePriority(5, http2.PriorityParam{StreamDep: 3})
			f.get(1, "/")
		}, "GET / 0 ", "1: 200, end", false},
		{"continuation", func(f *frames) {
			b := f.block(":method", "GET", ":scheme", "http", ":path", "/c", "x-long", long)
			_ = f.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, EndStream: true, BlockFragment: b[:100]})
			_ = f.WriteContinuation(1, false, b[100:200])
			_ = f.WriteContinuation(1, true, b[200:])
		}, "GET /c 0 " + long, "1: 200, end", false},
		{"padding, trailers", func(f *frames) {
			f.post(1)
			_ = f.WriteDataPadded(1, false, []byte("abc"), make([]byte, 9))
			f.headers(1, true, "x-trailer", "1")
		}, "POST /p 3 ", "0: room, 1: room, 1: 200, end", false},
		{"expect 100", func(f *frames) { f.post(1, "expect", "100-continue"); _ = f.WriteData(1, true, []byte("abc")) }, "POST /p 3 ", "1: 100, 0: room, 1: 200, end", false},
		{"small window", func(f *frames) {
			_ = f.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: 5})
			f.get(1, "/?n=12")
			f.get(3, "/?n=2")
			_ = f.WriteWindowUpdate(1, 4)
			_ = f.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: 1})
			_ = f.WriteWindowUpdate(1, 6)
			_ = f.WriteWindowUpdate(1, 1)
		}, "GET /?n=12 0 ; GET /?n=2 0 ", "ack, 1: 200, 1: 5 bytes, 3: 200, 3: 2 bytes, end, 1: 4 bytes, ack, 1: 2 bytes, 1: 1 bytes, end", false},
		{"connection's window", func(f *frames) {
			_ = f.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: 1 << 20}, http2.Setting{ID: http2.SettingMaxFrameSize, Val: 1 << 20})
			f.get(1, "/?n=65530")
			f.get(3, "/?n=10")
			_ = f.WriteWindowUpdate(0, 100)
		}, "GET /?n=65530 0 ; GET /?n=10 0 ", "ack, 1: 200, 1: 65530 bytes, end, 3: 200, 3: 5 bytes, 3: 5 bytes, end", false},
		{"reset before the body is whole", func(f *frames) {
			f.post(1)
			_ = f.WriteData(1, false, []byte("abc"))
			_ = f.WriteRSTStream(1, http2.ErrCodeCancel)
			_ = f.WriteData(1, true, []byte("def"))
		}, "", "0: room, 1: room, 0: room", false},
		{"body too large", func(f *frames) {
			f.post(1)
			_ = f.WriteData(1, false, make([]byte, 900))
			_ = f.WriteData(1, false, make([]byte, 900))
			_ = f.WriteData(1, true, make([]byte, 900))
			f.get(3, "/")
		}, "GET / 0 ", "0: room, 1: room, 0: room, 1: 413, end, 1: NO_ERROR, 0: room, 3: 200, end", false},
		{"bodies too large together", func(f *frames) {
			for id := uint32(1); id < 11; id += 2 {
				f.post(id)
				_ = f.WriteData(id, false, make([]byte, 900))
			}
		}, "", "0: room, 1: room, 0: room, 3: room, 0: room, 5: room, 0: room, 7: room, 0: room, 9: ENHANCE_YOUR_CALM", false},
		{"bodies that were reset", func(f *frames) {
			for id := uint32(1); id < 11; id += 2 {
				f.post(id)
				_ = f.WriteData(id, false, make([]byte, 900))
				_ = f.WriteRSTStream(id, http2.ErrCodeCancel)
			}
		}, "", "0: room, 1: room, 0: room, 3: room, 0: room, 5: room, 0: room, 7: room, 0: room, 9: room", false},
		{"header too large", func(f *frames) {
			_ = f.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, EndStream: true, BlockFragment: f.block(get...)})
			for range 87 {
				_ = f.WriteContinuation(1, false, f.block("x", strings.Repeat("~", 12_000)))
			}
			_ = f.WriteContinuation(1, true, f.block("x", strings.Repeat("~", 3_000))) // a little too much
			f.get(3, "/")
		}, "GET / 0 ", "1: 431, end, 3: 200, end", false},
		{"header far too large", func(f *frames) {
			_ = f.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, EndStream: true, BlockFragment: f.block(get...)})
			for range 90 {
				_ = f.WriteContinuation(1, false, f.block("x", strings.Repeat("~", 12_000)))
			}
		}, "", "goaway after 0: PROTOCOL_ERROR", true},
		{"length that is not the body's", func(f *frames) { f.post(1, "content-length", "4"); _ = f.WriteData(1, true, []byte("abc")) }, "", "0: room, 1: PROTOCOL_ERROR", false},
		{"data after the end", func(f *frames) { f.get(1, "/?n=1"); _ = f.WriteData(1, true, []byte("abc")) }, "GET /?n=1 0 ", "1: 200, 1: 1 bytes, end, 0: room", false},
		{"no path", func(f *frames) { f.headers(1, true, ":method", "GET", ":scheme", "http") }, "", "1: PROTOCOL_ERROR", false},
		{"bad path", func(f *frames) { f.get(1, "%zz") }, "", "1: PROTOCOL_ERROR", false},
		{"connect", func(f *frames) { f.headers(1, true, ":method", "CONNECT", ":authority", "w") }, "", "1: PROTOCOL_ERROR", false},
		{"field of HTTP/1.1", func(f *frames) { f.post(1, "transfer-encoding", "chunked") }, "", "1: PROTOCOL_ERROR", false},
		{"upper case", func(f *frames) { f.post(1, "X-A", "b") }, "", "1: PROTOCOL_ERROR", false},
		{"window of a stream too large", func(f *frames) { f.post(1); _ = f.WriteWindowUpdate(1, h2MaxWindow) }, "", "1: FLOW_CONTROL_ERROR", false},

		{"window too large", func(f *frames) { _ = f.WriteWindowUpdate(0, h2MaxWindow) }, "", "goaway after 0: FLOW_CONTROL_ERROR", true},
		{"windows too large", func(f *frames) {
			f.post(1)
			_ = f.WriteWindowUpdate(1, 1000)
			_ = f.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: h2MaxWindow})
		}, "", "goaway after 1: FLOW_CONTROL_ERROR", true},
		{"no increment", func(f *frames) { _ = f.WriteWindowUpdate(0, 0) }, "", "goaway after 0: PROTOCOL_ERROR", true},
		{"frame too large", func(f *frames) { f.post(1); _ = f.WriteRawFrame(http2.FrameData, 0, 1, make([]byte, 20_000)) }, "", "goaway after 1: FRAME_SIZE_ERROR", true},
		{"even stream", func(f *frames) { f.get(2, "/") }, "", "goaway after 0: PROTOCOL_ERROR", true},
		{"malformed on an even stream", func(f *frames) { f.headers(2, true, "X", "Y") }, "", "goaway after 0: PROTOCOL_ERROR", true},
		{"data on no stream", func(f *frames) { _ = f.WriteData(7, true, []byte("abc")) }, "", "0: room, goaway after 0: PROTOCOL_ERROR", true},
		{"reset of no stream", func(f *frames) { _ = f.WriteRSTStream(7, 0) }, "", "goaway after 0: PROTOCOL_ERROR", true},
		{"room for no stream", func(f *frames) { _ = f.WriteWindowUpdate(7, 1) }, "", "goaway after 0: PROTOCOL_ERROR", true},
		{"continuation of nothing", func(f *frames) { _ = f.WriteContinuation(1, true, nil) }, "", "goaway after 0: PROTOCOL_ERROR", true},
		{"continuation interrupted", func(f *frames) {
			_ = f.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: f.block(":method", "GET")})
			_ = f.WritePing(false, [8]byte{})
		}, "", "goaway after 0: PROTOCOL_ERROR", true},
		{"compression", func(f *frames) {
			_ = f.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, EndHeaders: true, BlockFragment: []byte{0xff, 0xff, 0xff}})
		}, "", "goaway after 0: COMPRESSION_ERROR", true},
		{"push", func(f *frames) {
			f.post(1)
			_ = f.WritePushPromise(http2.PushPromiseParam{StreamID: 1, PromiseID: 2, EndHeaders: true, BlockFragment: nil})
		}, "", "goaway after 1: PROTOCOL_ERROR", true},
		{"settings", func(f *frames) { _ = f.WriteSettings(http2.Setting{ID: http2.SettingEnablePush, Val: 7}) }, "", "goaway after 0: PROTOCOL_ERROR", true},
		{"settings twice", func(f *frames) {
			_ = f.WriteSettings(http2.Setting{ID: http2.SettingMaxFrameSize, Val: 1 << 15}, http2.Setting{ID: http2.SettingMaxFrameSize, Val: 1 << 15})
		}, "", "goaway after 0: PROTOCOL_ERROR", true},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := newFrames()
			_ = f.WriteSettings()
			c.do(f)
			whole := f.out.Bytes()
			// however the bytes are cut
			step := max(1, len(whole)/300, len(whole)*len(whole)/(10<<20))
			for cut := 0; cut < len(whole); cut += step {
				d := newDuplex()
				conn := NewConn(d, Options{MaxBody: 1000})
				_, _ = peer{d}.Write(whole[:cut])
				asked := serveAll(conn)
				_, _ = peer{d}.Write(whole[cut:])
				asked = append(asked, serveAll(conn)...)
				if got := strings.Join(asked, "; "); got != c.asked {
					t.Fatalf("cut at %d: asked %.200q, want %.200q", cut, got, c.asked)
				}
				got := strings.TrimPrefix(strings.TrimPrefix(sent(t, d.toPeer.Bytes()), "ack"), ", ")
				if got != c.sent {
					t.Fatalf("cut at %d: sent\n%s, want\n%s", cut, got, c.sent)
				}
				if conn.Closed() != c.ended || (conn.Err() != nil) != c.ended {
					t.Fatalf("cut at %d: closed %v, %v", cut, conn.Closed(), conn.Err())
				}
				if !c.ended {
					_ = peer{d}.Close()
					serveAll(conn)
					if !conn.Closed() {
						t.Fatal("it outlived its client")
					}
				}
				conn.Close()
			}
		})
	}
}

// The preface must be one, and settings must follow.
func TestH2Preface(t *testing.T) {
	for name, raw := range map[string]string{
		"no preface":  "PRI * HTTP/2.0\r\n\r\nSM\r\n\r?" + strings.Repeat("x", 100),
		"no settings": http2.ClientPreface + "\x00\x00\x08\x06\x00\x00\x00\x00\x0012345678",
		"an ack":      http2.ClientPreface + "\x00\x00\x00\x04\x01\x00\x00\x00\x00",
	} {
		d := newDuplex()
		c := NewConn(d, Options{})
		_, _ = peer{d}.Write([]byte(raw))
		if x := c.Next(); x != nil || !c.Closed() || c.Err() == nil {
			t.Errorf("%s: exchange %v, closed %v, err %v", name, x, c.Closed(), c.Err())
		}
		if got := sent(t, d.toPeer.Bytes()); got != "goaway after 0: PROTOCOL_ERROR" {
			t.Errorf("%s: sent %s", name, got)
		}
	}
}

// Streams have a bound, and one that the client has reset counts until the world is done with it.
func TestH2StreamsAreBounded(t *testing.T) {
	d := newDuplex()
	c := NewConn(d, Options{})
	f := newFrames()
	_ = f.WriteSettings()
	for i := range uint32(h2Streams + 1) {
		f.get(2*i+1, "/")
		_ = f.WriteRSTStream(2*i+1, http2.ErrCodeCancel)
	}
	_, _ = peer{d}.Write(f.out.Bytes())
	var xs []*Exchange
	for x := c.Next(); x != nil; x = c.Next() {
		xs = append(xs, x)
	}
	if len(xs) != h2Streams {
		t.Fatalf("%d exchanges", len(xs))
	}
	if got := sent(t, d.toPeer.Bytes()); got != fmt.Sprintf("ack, %d: REFUSED_STREAM", 2*h2Streams+1) {
		t.Errorf("sent %s", got)
	}
	d.toPeer.Reset()
	for _, x := range xs {
		if !x.Gone() {
			t.Fatal("a reset was missed")
		}
		x.Answer(x.Run(context.Background(), http.HandlerFunc(echo)))
	}
	f.out.Reset()
	f.get(1001, "/")
	_, _ = peer{d}.Write(f.out.Bytes())
	if len(serveAll(c)) != 1 {
		t.Error("no room after they were answered")
	}
	if got := sent(t, d.toPeer.Bytes()); got != "1001: 200, end" {
		t.Errorf("sent %s", got)
	}
	// an answer that its client does not take in the end
	f.out.Reset()
	f.get(1003, "/?n=100000")
	_ = f.WriteRSTStream(1003, http2.ErrCodeCancel)
	_, _ = peer{d}.Write(f.out.Bytes())
	if len(serveAll(c)) != 1 || len(c.many.streams) != 0 {
		t.Errorf("%d streams are left", len(c.many.streams))
	}
	c.Close()
}

// A client that asks and asks and never reads is told to calm down.
func TestH2QueueIsBounded(t *testing.T) {
	d := newDuplex()
	d.room = 0
	c := NewConn(d, Options{})
	f := newFrames()
	_ = f.WriteSettings()
	for range h2Queue + 10 {
		_ = f.WritePing(false, [8]byte{})
	}
	_, _ = peer{d}.Write(f.out.Bytes())
	if c.Next() != nil || !c.Closed() || c.Err() == nil {
		t.Errorf("closed %v, err %v", c.Closed(), c.Err())
	}
}

// A client that closes its connection has given up what is under way, which the world may still end as it likes.
func TestH2ClientLeaves(t *testing.T) {
	d := newDuplex()
	c := NewConn(d, Options{})
	f := newFrames()
	_ = f.WriteSettings()
	f.get(1, "/w")
	f.get(3, "/x?n=3")
	_, _ = peer{d}.Write(f.out.Bytes())
	w, x := c.Next(), c.Next()
	w.Answer(w.Run(context.Background(), watchHandler(w, make(chan string))))
	_ = peer{d}.Close()
	if c.Next() != nil || c.Closed() || !w.Gone() || !x.Gone() {
		t.Fatalf("closed %v, gone %v %v", c.Closed(), w.Gone(), x.Gone())
	}
	w.Drop()
	x.Answer(x.Run(context.Background(), http.HandlerFunc(echo)))
	if c.Next() != nil || !c.Closed() || c.Err() != nil || w.Running() {
		t.Errorf("closed %v, err %v, running %v", c.Closed(), c.Err(), w.Running())
	}
	if got := sent(t, d.toPeer.Bytes()); got != "ack, 1: 200" {
		t.Errorf("sent %s", got)
	}
}

// A header that does not fit a frame is continued.
func TestH2LongAnswerHeader(t *testing.T) {
	overH2(t, func(t *testing.T, c *Conn, d *duplex, cl *http.Client, url string) {
		stop, done := make(chan struct{}), make(chan struct{})
		long := strings.Repeat("~", 50_000)
		h := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.Header().Set("X-Long", long) })
		go func() { drive(c, d, h, stop); close(done) }()
		defer func() { close(stop); <-done }()
		resp, err := ask(t, cl, http.MethodGet, url+"/", nil)
		if err != nil {
			t.Fatal(err)
		}
		_ = resp.Body.Close()
		if resp.Header.Get("X-Long") != long {
			t.Error("it did not come whole")
		}
	})
}

func FuzzH2(f *testing.F) {
	for _, do := range []func(*frames){
		func(f *frames) { f.get(1, "/?n=100"); _ = f.WriteWindowUpdate(1, 5) },
		func(f *frames) { f.post(1); _ = f.WriteData(1, true, []byte("abc")); f.get(3, "/") },
		func(f *frames) { f.post(1); _ = f.WriteRSTStream(1, 0); f.headers(1, true, "a", "b") },
	} {
		fr := newFrames()
		_ = fr.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: 10})
		do(fr)
		f.Add(fr.out.Bytes()[len(http2.ClientPreface):], 3)
	}
	f.Fuzz(func(t *testing.T, raw []byte, cut int) {
		raw = append([]byte(http2.ClientPreface), raw...)
		d := newDuplex()
		c := NewConn(d, Options{MaxBody: 1 << 10})
		cut = min(max(cut, 0), len(raw))
		_, _ = peer{d}.Write(raw[:cut])
		for range 2 {
			for x := c.Next(); x != nil; x = c.Next() {
				if x.Request.Method != "POST" {
					x.Answer(x.Run(context.Background(), http.HandlerFunc(echo)))
				}
			}
			_, _ = peer{d}.Write(raw[cut:])
		}
		if h := c.many; h != nil && !c.Closed() {
			held := 0
			for _, s := range h.streams {
				held += len(s.body)
			}
			if int64(held) != h.held || len(h.streams) > h2Streams || h.out.Len() > 0 {
				t.Errorf("%d bytes held, counted %d; %d streams; %d bytes unsent", held, h.held, len(h.streams), h.out.Len())
			}
		}
		c.Close()
		if len(c.busy) > 0 {
			t.Error("exchanges are left")
		}
	})
}
