package replay

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/opreplay/opreplay/internal/apicall"
	"github.com/opreplay/opreplay/traces"
)

// captureProcess is the process of the rows that show the whole cluster, whatever the operator watches.
const captureProcess = "opsim"

// capture lists and watches resources from within, as 'oprec run' does beside the operator: its rows are those of
// a recorder that sees every change.
type capture struct {
	handler http.Handler // the API server, past the plan
	tap     *apicall.Tap
	ctx     context.Context
	cancel  context.CancelFunc
	streams sync.WaitGroup

	mu      sync.Mutex
	started map[string]bool // by URL path
	marks   map[string]int  // bookmarks seen, by stream
	marked  chan struct{}   // closed, and made anew, by each bookmark
}

func newCapture(ctx context.Context, out traces.Appender, h http.Handler, now func() time.Time) *capture {
	ctx, cancel := context.WithCancel(ctx)
	c := &capture{
		handler: h, ctx: ctx, cancel: cancel,
		started: map[string]bool{}, marks: map[string]int{}, marked: make(chan struct{}),
	}
	c.tap = apicall.New(&captureRows{out: out, marked: c.mark}, apicall.Options{
		Now: now, Process: func(*http.Request) string { return captureProcess },
	})
	return c
}

// captureRows passes on the rows that a recorder's own watches leave in a trace.
type captureRows struct {
	out traces.Appender
	// marked, if set, is told of a bookmark of a stream; none is recorded.
	marked func(stream string)
}

// Seq implements traces.Appender.
func (c *captureRows) Seq() int64 { return c.out.Seq() }

// Append implements traces.Appender.
func (c *captureRows) Append(r traces.Record) error {
	w, ok := r.(*traces.WatchEvent)
	if !ok {
		return nil // its own calls are no part of the run
	}
	group := w.Group
	if group == "" {
		group = "core"
	}
	w.Stream = "capture/" + group + "/" + w.Resource
	if w.Type == string(traces.Bookmark) {
		if c.marked != nil {
			c.marked(w.Stream)
		}
		return nil
	}
	return c.out.Append(w)
}

func (c *capture) mark(stream string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.marks[stream]++
	close(c.marked)
	c.marked = make(chan struct{})
}

func collection(r traces.Resource) string {
	if r.Group == "" {
		return "/api/" + r.Version + "/" + r.Resource
	}
	return "/apis/" + r.Group + "/" + r.Version + "/" + r.Resource
}

// start lists the resource and begins to watch it. served is false when the server does not have it (yet).
func (c *capture) start(r traces.Resource) (served bool, err error) {
	path := collection(r)
	if c.started[path] {
		return true, nil
	}
	var body bytes.Buffer
	code := c.call(c.ctx, path, nil, &body)
	if code == http.StatusNotFound || code == http.StatusMethodNotAllowed {
		return false, nil
	}
	var list struct {
		Metadata struct {
			ResourceVersion string `json:"resourceVersion"`
		} `json:"metadata"`
	}
	if err := json.Unmarshal(body.Bytes(), &list); err != nil || code != http.StatusOK {
		return false, fmt.Errorf("list %s: HTTP status %d", path, code)
	}
	c.started[path] = true
	query := url.Values{
		"watch": {"true"}, "allowWatchBookmarks": {"true"}, "resourceVersion": {list.Metadata.ResourceVersion},
		"timeoutSeconds": {"86400"},
	}
	c.streams.Go(func() { c.call(c.ctx, path, query, nil) })
	return true, nil
}

// call makes one call and returns its status.
func (c *capture) call(ctx context.Context, path string, query url.Values, into *bytes.Buffer) int {
	u := url.URL{Scheme: "http", Host: "opsim", Path: path, RawQuery: query.Encode()}
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, u.String(), http.NoBody)
	if err != nil {
		return 0
	}
	r.RequestURI = u.RequestURI()
	r.RemoteAddr = "127.0.0.1:1"
	r.Header.Set("Accept", "application/json")
	r.Header.Set("User-Agent", captureProcess)
	w := &discard{header: http.Header{}, ctx: ctx}
	if into != nil {
		w.into = into
	}
	c.tap.Handler(c.handler).ServeHTTP(w, r)
	return w.code
}

// drain waits until all that was committed before is in the trace, then ends. BOOKMARK has the server send a
// bookmark to every watch, behind what the watch has yet to get.
func (c *capture) drain(ctx context.Context, bookmark func()) error {
	c.mu.Lock()
	want := map[string]int{}
	for path := range c.started {
		want[streamOf(path)] = c.marks[streamOf(path)] + 1
	}
	c.mu.Unlock()
	bookmark()
	for {
		c.mu.Lock()
		waiting := ""
		for s, n := range want {
			if c.marks[s] < n {
				waiting = s
			}
		}
		marked := c.marked
		c.mu.Unlock()
		if waiting == "" {
			break
		}
		select {
		case <-marked:
		case <-ctx.Done():
			c.stop()
			return fmt.Errorf("the stream %s does not come to its end: %w", waiting, ctx.Err())
		}
	}
	c.stop()
	return nil
}

func streamOf(path string) string {
	parts := strings.Split(path, "/") // "", api, version, resource or "", apis, group, version, resource
	if parts[1] == "api" {
		return "capture/core/" + parts[3]
	}
	return "capture/" + parts[2] + "/" + parts[4]
}

func (c *capture) stop() {
	c.cancel()
	c.streams.Wait()
}
