package apicall_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/opreplay/opreplay/internal/apicall"
	"github.com/opreplay/opreplay/traces"
)

// memory is a trace in memory.
type memory struct {
	mu   sync.Mutex
	rows []traces.Record
	more chan struct{} // one token for each row
	err  error
}

func newMemory() *memory { return &memory{more: make(chan struct{}, 100000)} }

func (m *memory) Append(r traces.Record) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.err != nil {
		return m.err
	}
	r.Header().Seq = int64(len(m.rows) + 1)
	m.rows = append(m.rows, r)
	m.more <- struct{}{}
	return nil
}

func (m *memory) Seq() int64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	return int64(len(m.rows))
}

func (m *memory) watches() (out []*traces.WatchEvent) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, r := range m.rows {
		if e, ok := r.(*traces.WatchEvent); ok {
			out = append(out, e)
		}
	}
	return out
}

func (m *memory) requests() (out []*traces.Request) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, r := range m.rows {
		if e, ok := r.(*traces.Request); ok {
			out = append(out, e)
		}
	}
	return out
}

// wait returns when n rows were appended since the last wait.
func (m *memory) wait(t *testing.T, n int) {
	t.Helper()
	deadline := time.After(10 * time.Second)
	for range n {
		select {
		case <-m.more:
		case <-deadline:
			t.Fatalf("no further row within 10 s; there are %d", m.Seq())
		}
	}
}

// serve puts a Tap in front of backend. With proxy, a reverse proxy over TCP stands between, as in the
// recording proxy; without, the Tap calls the backend as in front of the embedded server.
func serve(t *testing.T, proxy bool, o apicall.Options, backend http.HandlerFunc) (*httptest.Server, *memory, *apicall.Tap) {
	t.Helper()
	rows := newMemory()
	tap := apicall.New(rows, o)
	var next http.Handler = backend
	if proxy {
		upstream := httptest.NewServer(backend)
		t.Cleanup(upstream.Close)
		u, err := url.Parse(upstream.URL)
		if err != nil {
			t.Fatal(err)
		}
		next = &httputil.ReverseProxy{
			Rewrite:       func(r *httputil.ProxyRequest) { r.SetURL(u) },
			FlushInterval: -1,
			ErrorHandler: func(w http.ResponseWriter, r *http.Request, _ error) {
				if r.Context().Err() == nil {
					w.WriteHeader(http.StatusBadGateway)
				}
			},
		}
	}
	front := httptest.NewServer(tap.Handler(next))
	t.Cleanup(front.Close)
	return front, rows, tap
}

// both runs a test with and without a reverse proxy behind the Tap.
func both(t *testing.T, f func(t *testing.T, proxy bool)) {
	t.Run("direct", func(t *testing.T) { f(t, false) })
	t.Run("proxy", func(t *testing.T) { f(t, true) })
}

func gzipped(t *testing.T, s string) []byte {
	t.Helper()
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	if _, err := z.Write([]byte(s)); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func answer(contentType, body string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		w.Header().Set("Content-Type", contentType)
		w.Header().Set("Audit-Id", "a-1")
		_, _ = io.WriteString(w, body)
	}
}

// call makes a request as the program "manager" and returns code and body.
func call(t *testing.T, method, url, contentType, body string) (int, string) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("User-Agent", "manager/v1 (linux/amd64)")
	if contentType != "" {
		r.Header.Set("Content-Type", contentType)
	}
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(b)
}

func get(t *testing.T, url string) (*http.Response, error) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), "GET", url, nil)
	if err != nil {
		t.Fatal(err)
	}
	return http.DefaultClient.Do(r)
}

const widget = `{"kind":"Widget","apiVersion":"zoo.example.com/v1","metadata":{"name":"w","namespace":"default",` +
	`"uid":"u-1","resourceVersion":"42","generation":3,"managedFields":[` +
	`{"manager":"kubectl","operation":"Update","time":"2026-11-30T11:00:00Z"},` +
	`{"manager":"manager","operation":"Update","time":"2026-11-30T11:00:05Z","fieldsV1":{"f:a":{}}}]},"spec":{"a":1}}`

func TestWrite(t *testing.T) {
	both(t, func(t *testing.T, proxy bool) {
		front, rows, tap := serve(t, proxy, apicall.Options{
			User: func(*http.Request) string { return "system:serviceaccount:ns:sa" },
		}, answer("application/json", widget+"\n"))
		code, body := call(t, "PUT", front.URL+"/apis/zoo.example.com/v1/namespaces/default/widgets/w/status?dryRun=All",
			"application/json", `{"spec":{"a":1}}`)
		if code != 200 || body != widget+"\n" {
			t.Fatalf("the client got %d %q", code, body)
		}
		rows.wait(t, 1)
		got := *rows.requests()[0]
		if got.TS < got.Start || got.Start == 0 {
			t.Errorf("the call began at %d and ended at %d", got.Start, got.TS)
		}
		got.TS, got.Start = 0, 0
		want := traces.Request{
			Head: traces.Head{Seq: 1},
			Identity: traces.Identity{
				Group: "zoo.example.com", Version: "v1", Resource: "widgets", Namespace: "default", Name: "w",
				UID: "u-1", ResourceVersion: 42, Generation: 3,
			},
			Process: "manager", User: "system:serviceaccount:ns:sa", UserAgent: "manager/v1 (linux/amd64)",
			Verb: "update", Subresource: "status", Query: "dryRun=All", FieldManager: "manager",
			ContentType: "application/json", RequestBody: `{"spec":{"a":1}}`, Code: 200,
			ResponseBody: widget, ResponseHash: traces.HashObject(widget), Attempt: 1, AuditID: "a-1",
		}
		if got != want {
			t.Errorf("got  %+v\nwant %+v", got, want)
		}
		if l := tap.Losses(); len(l) > 0 {
			t.Errorf("losses: %v", l)
		}
	})
}

func TestList(t *testing.T) {
	const pod = `{"metadata":{"name":"%","namespace":"d","uid":"u%","resourceVersion":"7%"},"spec":{}}`
	item := func(n string) string { return strings.ReplaceAll(pod, "%", n) }
	body := `{"kind":"PodList","apiVersion":"v1","metadata":{"resourceVersion":"99","continue":"abc"},"items":[` +
		item("1") + `,` + item("2") + `]}`
	both(t, func(t *testing.T, proxy bool) {
		front, rows, _ := serve(t, proxy, apicall.Options{}, answer("application/json", body))
		if _, got := call(t, "GET", front.URL+"/api/v1/pods?limit=2", "", ""); got != body {
			t.Fatalf("the client got %q", got)
		}
		rows.wait(t, 3)
		items, requests := rows.watches(), rows.requests()
		if len(items) != 2 || len(requests) != 1 {
			t.Fatalf("%d items and %d requests", len(items), len(requests))
		}
		for i, n := range []string{"1", "2"} {
			e := items[i]
			want := `{"kind":"Pod","apiVersion":"v1",` + item(n)[1:]
			if e.Object != want || e.Type != "SYNC" || e.UID != "u"+n || e.Process != "manager" || e.ObjectHash != traces.HashObject(want) {
				t.Errorf("item %s: %+v", n, e)
			}
			if e.Stream == "" || e.Stream != items[0].Stream {
				t.Errorf("item %s is of stream %q", n, e.Stream)
			}
		}
		r := requests[0]
		if r.Verb != "list" || r.Stream != items[0].Stream || r.ResourceVersion != 99 || r.ResponseHash != "" ||
			r.ResponseBody != `{"kind":"PodList","apiVersion":"v1","metadata":{"resourceVersion":"99","continue":"abc"}}` {
			t.Errorf("request: %+v", r)
		}
		if r.Seq < items[1].Seq {
			t.Errorf("the list's row %d comes before its items'", r.Seq)
		}
	})
}

// A client must not be able to act on an event whose row has a higher Seq than its call's StartSeq.
func TestOrder(t *testing.T) {
	both(t, func(t *testing.T, proxy bool) {
		const n = 50
		next := make(chan int)
		front, rows, _ := serve(t, proxy, apicall.Options{}, func(w http.ResponseWriter, r *http.Request) {
			if r.Method == "GET" {
				w.Header().Set("Content-Type", "application/json")
				w.(http.Flusher).Flush()
				for range next {
					_, _ = io.WriteString(w, `{"type":"MODIFIED","object":`+widget+`}`+"\n")
					w.(http.Flusher).Flush()
				}
				return
			}
			answer("application/json", widget)(w, r)
		})
		resp, err := get(t, front.URL+"/apis/zoo.example.com/v1/widgets?watch=true")
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = resp.Body.Close() }()
		frame := make([]byte, len(`{"type":"MODIFIED","object":}`)+len(widget)+1)
		for i := range n {
			next <- i
			if _, err := io.ReadFull(resp.Body, frame); err != nil {
				t.Fatal(err)
			}
			call(t, "PUT", front.URL+"/apis/zoo.example.com/v1/namespaces/default/widgets/w", "application/json", "{}")
			event, write := rows.watches()[i], rows.requests()[i]
			if event.Seq > write.StartSeq || write.StartSeq >= write.Seq {
				t.Fatalf("event %d, write from %d to %d", event.Seq, write.StartSeq, write.Seq)
			}
			if event.Writer != "manager" || event.Object != widget {
				t.Fatalf("event: %+v", event)
			}
		}
		close(next)
		if _, err := io.ReadAll(resp.Body); err != nil {
			t.Fatal(err)
		}
		rows.wait(t, 2*n+1)
		last := rows.requests()[n]
		if last.Verb != "watch" || last.Code != 200 || last.StartSeq != 0 || last.ResponseBody != "" {
			t.Errorf("the watch's own row: %+v", last)
		}
	})
}

// atOnce is a client that sees each byte at once. It asks at every Write how many rows there are.
type atOnce struct {
	*httptest.ResponseRecorder
	rows func() int
	seen []int // rows when the n-th byte came
}

func (a *atOnce) Write(p []byte) (int, error) {
	for range p {
		a.seen = append(a.seen, a.rows())
	}
	return a.ResponseRecorder.Write(p)
}

// The last byte of a frame, or of an answer, goes out when its row is there; what can go before, does.
func TestRowsComeBeforeTheLastByte(t *testing.T) {
	frame := `{"type":"ADDED","object":` + widget + "}"
	for _, c := range []struct {
		url, body string
		rows      map[int]int // rows that there must be when the n-th byte comes
	}{
		{"/api/v1/pods?watch=1", frame + "\n" + frame, map[int]int{len(frame) - 1: 1, 2 * len(frame): 2}},
		{"/api/v1/namespaces/d/pods/p", widget, map[int]int{len(widget) - 1: 1}},
		{"/api/v1/pods", `{"kind":"PodList","apiVersion":"v1","items":[` + widget + `]}`, map[int]int{len(widget) + 46: 2}},
		{"/version", "{}", map[int]int{1: 1}},
	} {
		for _, piece := range []int{1, 7, 1 << 20} {
			rows := newMemory()
			client := &atOnce{ResponseRecorder: httptest.NewRecorder(), rows: func() int { return int(rows.Seq()) }}
			apicall.New(rows, apicall.Options{}).Handler(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Type", "application/json")
				for b := []byte(c.body); len(b) > 0; {
					n := min(piece, len(b))
					_, _ = w.Write(b[:n])
					b = b[n:]
				}
			})).ServeHTTP(client, httptest.NewRequest("GET", c.url, nil))
			if client.Body.String() != c.body {
				t.Fatalf("%s: the client got %q", c.url, client.Body)
			}
			for at, want := range c.rows {
				if client.seen[at] < want {
					t.Errorf("%s in pieces of %d: %d rows of %d when byte %d came", c.url, piece, client.seen[at], want, at)
				}
			}
			if len(c.body) > 100 && piece < 10 && client.seen[0] != 0 {
				t.Errorf("%s in pieces of %d: nothing came before all was there", c.url, piece)
			}
		}
	}
}

func TestClientGoesAway(t *testing.T) {
	both(t, func(t *testing.T, proxy bool) {
		arrived, release := make(chan struct{}), make(chan struct{})
		front, rows, _ := serve(t, proxy, apicall.Options{}, func(w http.ResponseWriter, r *http.Request) {
			close(arrived)
			select {
			case <-r.Context().Done():
			case <-release:
			}
		})
		defer close(release)
		ctx, cancel := context.WithCancel(t.Context())
		r, err := http.NewRequestWithContext(ctx, "GET", front.URL+"/api/v1/namespaces/d/pods/p", nil)
		if err != nil {
			t.Fatal(err)
		}
		failed := make(chan error, 1)
		go func() {
			_, err := http.DefaultClient.Do(r)
			failed <- err
		}()
		<-arrived
		cancel()
		if err := <-failed; !errors.Is(err, context.Canceled) {
			t.Fatal(err)
		}
		rows.wait(t, 1)
		if got := rows.requests()[0]; got.Code != 0 || got.Name != "p" {
			t.Errorf("%+v", got)
		}
	})
}

func TestUpgrade(t *testing.T) {
	both(t, func(t *testing.T, proxy bool) {
		front, rows, tap := serve(t, proxy, apicall.Options{}, func(w http.ResponseWriter, r *http.Request) {
			conn, rw, err := http.NewResponseController(w).Hijack()
			if err != nil {
				t.Error(err)
				return
			}
			defer func() { _ = conn.Close() }()
			_, _ = rw.WriteString("HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: SPDY/3.1\r\n\r\n")
			_ = rw.Flush()
			_, _ = io.Copy(conn, io.LimitReader(rw, 4)) // an echo of what is typed
		})
		r, err := http.NewRequestWithContext(t.Context(), "POST", front.URL+"/api/v1/namespaces/d/pods/p/exec?command=sh", nil)
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Connection", "Upgrade")
		r.Header.Set("Upgrade", "SPDY/3.1")
		resp, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		if resp.StatusCode != 101 {
			t.Fatal(resp.Status)
		}
		stream := resp.Body.(io.ReadWriteCloser)
		if _, err := stream.Write([]byte("echo")); err != nil {
			t.Fatal(err)
		}
		if got, err := io.ReadAll(stream); err != nil || string(got) != "echo" {
			t.Fatalf("%q, %v", got, err)
		}
		_ = stream.Close()
		rows.wait(t, 1)
		got := rows.requests()[0]
		if got.Verb != "connect" || got.Subresource != "exec" || got.Code != 101 || got.ResponseBody != "" {
			t.Errorf("%+v", got)
		}
		if l := tap.Losses(); len(l) > 0 {
			t.Errorf("losses: %v", l)
		}
	})
}

func TestTooLarge(t *testing.T) {
	both(t, func(t *testing.T, proxy bool) {
		big := `{"kind":"Widget","spec":"` + strings.Repeat("x", 3000) + `"}`
		front, rows, tap := serve(t, proxy, apicall.Options{Limit: 1000}, func(w http.ResponseWriter, r *http.Request) {
			got, _ := io.ReadAll(r.Body)
			w.Header().Set("Content-Type", "application/json")
			if string(got) != big {
				w.WriteHeader(400)
			}
			for b := []byte(big); len(b) > 0; b = b[100:] {
				if len(b) < 100 {
					_, _ = w.Write(b)
					break
				}
				_, _ = w.Write(b[:100])
			}
		})
		code, body := call(t, "PUT", front.URL+"/apis/zoo.example.com/v1/namespaces/d/widgets/w", "application/json", big)
		if code != 200 || body != big {
			t.Fatalf("%d, %d bytes of %d", code, len(body), len(big))
		}
		rows.wait(t, 1)
		if got := rows.requests()[0]; got.RequestBody != "" || got.ResponseBody != "" || got.Code != 200 {
			t.Errorf("%+v", got)
		}
		var count int64
		for _, l := range tap.Losses() {
			if !strings.Contains(l.Reason, "limit") {
				t.Errorf("loss: %+v", l)
			}
			count += l.Count
		}
		if count != 2 {
			t.Errorf("%d losses", count)
		}
	})
}

func TestTraceThatFails(t *testing.T) {
	failures := 0
	front, rows, _ := serve(t, false, apicall.Options{Failed: func(error) { failures++ }}, answer("application/json", widget))
	rows.err = errors.New("disk full")
	for range 3 {
		if code, body := call(t, "GET", front.URL+"/apis/zoo.example.com/v1/namespaces/default/widgets/w", "", ""); code != 200 || body != widget {
			t.Fatalf("the client got %d %q", code, body)
		}
	}
	if failures != 1 {
		t.Errorf("told %d times that the trace fails", failures)
	}
}

func TestTrailers(t *testing.T) {
	both(t, func(t *testing.T, proxy bool) {
		front, rows, _ := serve(t, proxy, apicall.Options{}, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			w.Header().Set("Trailer", "X-After")
			_, _ = io.WriteString(w, widget)
			w.Header().Set("X-After", "yes")
		})
		resp, err := get(t, front.URL+"/apis/zoo.example.com/v1/namespaces/default/widgets/w")
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = resp.Body.Close() }()
		if b, err := io.ReadAll(resp.Body); err != nil || string(b) != widget || resp.Trailer.Get("X-After") != "yes" {
			t.Errorf("%q, %v, trailers %v", b, err, resp.Trailer)
		}
		rows.wait(t, 1)
	})
}

func TestWatchOverWebsocket(t *testing.T) {
	front, rows, tap := serve(t, false, apicall.Options{}, func(w http.ResponseWriter, _ *http.Request) {
		conn, rw, err := http.NewResponseController(w).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		_, _ = rw.WriteString("HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n")
		_ = rw.Flush()
		_ = conn.Close()
	})
	r, err := http.NewRequestWithContext(t.Context(), "GET", front.URL+"/api/v1/pods?watch=1", nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Connection", "keep-alive, Upgrade")
	r.Header.Set("Upgrade", "websocket")
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	_ = resp.Body.Close()
	rows.wait(t, 1)
	if got := rows.requests()[0]; got.Code != 101 || got.Verb != "watch" {
		t.Errorf("%+v", got)
	}
	if l := tap.Losses(); len(l) != 1 || !strings.Contains(l[0].Reason, "websocket") {
		t.Errorf("losses: %v", l)
	}
}

func TestAttempts(t *testing.T) {
	codes := []int{429, 503, 200, 500}
	now := time.Unix(1000, 0)
	front, rows, _ := serve(t, false, apicall.Options{Now: func() time.Time { return now }}, func(w http.ResponseWriter, _ *http.Request) {
		code := codes[0]
		codes = codes[1:]
		if code != 200 && code != 500 {
			w.Header().Set("Retry-After", "1")
		}
		w.WriteHeader(code)
	})
	for range len(codes) {
		call(t, "GET", front.URL+"/api/v1/namespaces/d/pods/p", "", "")
	}
	rows.wait(t, 4)
	for i, want := range []int32{1, 2, 3, 1} {
		if got := rows.requests()[i].Attempt; got != want {
			t.Errorf("call %d is attempt %d, want %d", i, got, want)
		}
	}
}

func TestGzipAnswer(t *testing.T) {
	front, rows, _ := serve(t, false, apicall.Options{}, func(w http.ResponseWriter, r *http.Request) {
		if e := r.Header.Get("Accept-Encoding"); e != "" {
			t.Errorf("Accept-Encoding %q was passed on", e)
		}
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Content-Encoding", "gzip")
		_, _ = w.Write(gzipped(t, widget))
	})
	if _, body := call(t, "GET", front.URL+"/apis/zoo.example.com/v1/namespaces/default/widgets/w", "", ""); !bytes.Equal([]byte(body), []byte(widget)) {
		t.Fatalf("%q", body)
	}
	rows.wait(t, 1)
	if got := rows.requests()[0]; got.ResponseBody != widget {
		t.Errorf("%+v", got)
	}
}
