package recorder

import (
	"bytes"
	"cmp"
	"context"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/opreplay/opreplay/bpf/probes"
	"github.com/opreplay/opreplay/internal/apicall"
	"github.com/opreplay/opreplay/traces"
)

// calls knows the API calls that the operator has begun. Behind a proxy each finds its row there, else it
// becomes one.
type calls struct {
	j       *joiner
	o       joinOptions
	tap     *apicall.Tap // reads what a call is about, and makes rows of calls without a proxy
	reading time.Duration
	current *begun // the call that the tap makes a row of
	results *results

	open        map[callKey][]*begun
	byGoroutine map[goroutine]*begun // the latest of each

	unknown   int64 // rows without a call
	bodies    int64 // bodies that could not be read
	unserved  int64 // calls without their query and body, for the cluster may not have been meant
	unended   int64 // calls without an answer
	answers   int64 // answers to reads, whose content is not known
	truncated int64 // calls with a path that is too long
}

// callKey is what a call is about, as its row says it.
type callKey struct {
	verb, group, version, resource, subresource, namespace, name, path, query string
}

// begun is a call that the probes saw begin.
type begun struct {
	key       callKey
	at        time.Duration
	goid      uint64
	process   string
	stack     int64
	pass      *pass
	recording *apicall.Recording
	answered  time.Duration // 0 not yet
	streams   bool          // its row comes when its stream ends
	guessed   bool          // the media type of its body
}

// Bounds of what is remembered of calls whose rows never come, such as those to other servers than the proxy.
const (
	grace        = 10 * time.Second // after the answer
	maxStreaming = 10_000
)

func newCalls(j *joiner, o joinOptions) *calls {
	c := &calls{j: j, o: o, open: map[callKey][]*begun{}, byGoroutine: map[goroutine]*begun{}, results: newResults(o.watches)}
	c.tap = apicall.New(c, apicall.Options{
		Now:     func() time.Time { return time.Unix(0, j.ts(c.reading)) },
		Process: func(*http.Request) string { return c.current.process },
		Redact:  o.redact,
	})
	return c
}

// Seq implements traces.Appender.
func (c *calls) Seq() int64 { return c.j.out.Seq() }

// Append implements traces.Appender for the tap: a call without a proxy has ended.
func (c *calls) Append(r traces.Record) error {
	row, ok := r.(*traces.Request)
	if !ok {
		return nil
	}
	b := c.current
	row.StackID, row.Stream = b.stack, "" // no watch rows come of it
	if made := c.results.of(row, b.at, c.reading); made != nil {
		c.j.pull(made) // what the call made was there before its answer
	}
	if b.guessed {
		row.ContentType = ""
	}
	c.j.out.number(&row.Head)
	c.j.passes.tie(row, b.pass)
	return nil
}

func (c *calls) begin(e *probes.Event) {
	if e.Truncated {
		c.truncated++
		return
	}
	path, ok := apiPath(e.Path)
	if !ok {
		return
	}
	if old := c.byGoroutine[goroutineOf(e)]; old != nil {
		c.unseen(old, e.Time) // a goroutine makes one call at a time
	}
	b := &begun{
		at: e.Time, goid: e.GoID, process: c.j.processOf(e.PID), pass: c.j.passes.of(e),
		stack: c.j.stacks.user(e.Time, c.j.wall, e.PID, e.Stack, e.Top),
	}
	c.reading, c.current = e.Time, b
	request := &http.Request{
		Method: e.Method, URL: &url.URL{Path: path, RawQuery: e.Query}, Header: http.Header{}, Body: http.NoBody,
	}
	about := c.tap.Open(nowhere{}, request.Clone(context.Background())).Target()
	b.key = c.key(&about)
	b.streams = about.Verb == "watch" || about.Verb == "connect" || about.Subresource == "log"
	if c.o.alone {
		c.own(b, request, &about, e)
		b.recording = c.tap.Open(nowhere{}, request)
	} else {
		c.open[b.key] = append(c.open[b.key], b)
	}
	c.byGoroutine[goroutineOf(e)] = b
}

// key is what a row and a call have in common. A created object's name stands in its body alone.
func (c *calls) key(r *traces.Request) callKey {
	k := callKey{r.Verb, r.Group, r.Version, r.Resource, r.Subresource, r.Namespace, r.Name, r.Path, r.Query}
	if k.verb == "create" && k.subresource == "" {
		k.name = ""
	}
	if !c.o.queries {
		k.query = ""
	}
	return k
}

// own gives the tap's request its body, and takes the query away where the call may be meant for another server.
// The probes see calls to any: only what is about a resource that the cluster serves is sure to be redacted by its
// rules, and a query may hold a key as well as a body.
func (c *calls) own(b *begun, request *http.Request, about *traces.Request, e *probes.Event) {
	served := about.Resource != "" && c.o.served(about.Group, about.Version, about.Resource)
	if !served {
		if e.Query != "" || len(e.Body) > 0 {
			c.unserved++
		}
		request.URL.RawQuery = ""
	}
	switch {
	case len(e.Body) == 0:
		if e.BodyLength != 0 || writes(e.Method) {
			c.bodies++
		}
		return
	case !served:
		return
	}
	var media string
	media, b.guessed = mediaOf(e.Method, e.Body)
	request.Header.Set("Content-Type", media)
	request.Body = io.NopCloser(bytes.NewReader(e.Body))
}

func writes(method string) bool {
	return method == http.MethodPost || method == http.MethodPut || method == http.MethodPatch
}

// mediaOf tells a body's media type from how it begins, for headers are not read. A JSON object that is a
// patch may be of any of three types, which are JSON all the same: GUESSED.
func mediaOf(method string, body []byte) (media string, guessed bool) {
	patch := method == http.MethodPatch
	text := bytes.TrimLeft(body, " \t\r\n")
	switch {
	case bytes.HasPrefix(body, []byte("k8s\x00")): // k8s.io/apimachinery/pkg/runtime/serializer/protobuf
		return "application/vnd.kubernetes.protobuf", false
	case bytes.HasPrefix(body, []byte{0xd9, 0xd9, 0xf7}): // RFC 8949, 3.4.6
		if patch {
			return "application/apply-patch+cbor", false
		}
		return "application/cbor", false
	case bytes.HasPrefix(text, []byte("[")) && patch:
		return "application/json-patch+json", false
	case bytes.HasPrefix(text, []byte("{")):
		if patch {
			return "application/merge-patch+json", true
		}
		return "application/json", false
	case patch:
		return "application/apply-patch+yaml", false
	}
	return "application/yaml", false
}

// answered ends a call, as far as the operator is concerned.
func (c *calls) answered(e *probes.Event) {
	b := c.byGoroutine[goroutineOf(e)]
	if b == nil {
		return
	}
	delete(c.byGoroutine, goroutineOf(e))
	if b.goid != e.GoID && b.goid != 0 && e.GoID != 0 { // its goroutine is no more, and another has its descriptor
		c.unseen(b, e.Time)
		return
	}
	b.answered = e.Time
	if b.recording != nil {
		c.record(b, e.Time, e.Status)
		if b.key.verb == "get" || b.key.verb == "list" {
			c.answers++
		}
	}
}

// unseen ends a call whose answer was not seen, at the latest that it can have come.
func (c *calls) unseen(b *begun, at time.Duration) {
	if b.recording != nil {
		c.unended++
		c.record(b, at, 0)
	}
}

// record has the tap make the row of a call without a proxy.
func (c *calls) record(b *begun, at time.Duration, status int) {
	c.reading, c.current = at, b
	if status != 0 {
		b.recording.Writer().WriteHeader(status)
	}
	b.recording.Finish(status != 0)
	b.recording = nil
}

// tie finds the call that a row of the proxy's, which ended at the time AT, is about.
func (c *calls) tie(at time.Duration, r *traces.Request) {
	k := c.key(r)
	list := c.open[k]
	arrived := time.Duration(r.Start - c.j.wall) // by the session's clock, which is the joiner's
	best := -1
	for i, b := range list {
		if b.at > arrived {
			continue
		}
		// An operator that has its answer has it from an earlier row, unless it has given up waiting.
		if best < 0 || list[best].answered != 0 && b.answered == 0 {
			best = i
		}
	}
	if best < 0 {
		c.unknown++
		c.j.emit(r)
		return
	}
	b := list[best]
	c.forget(k, best)
	r.StackID = b.stack
	c.j.passes.tie(r, b.pass)
}

func (c *calls) forget(k callKey, i int) {
	list := append(c.open[k][:i:i], c.open[k][i+1:]...)
	if len(list) == 0 {
		delete(c.open, k)
		return
	}
	c.open[k] = list
}

// expire forgets calls that went elsewhere.
func (c *calls) expire(now time.Duration) {
	streaming := 0
	for k, list := range c.open {
		for i := len(list) - 1; i >= 0; i-- {
			b := list[i]
			if b.streams {
				streaming++
			}
			if b.answered != 0 && now-b.answered > grace && (!b.streams || streaming > maxStreaming) {
				c.forget(k, i)
			}
		}
	}
}

// close records the calls that had no answer when the recording ended.
func (c *calls) close() {
	var left []*begun
	for _, b := range c.byGoroutine {
		left = append(left, b)
	}
	slices.SortFunc(left, func(a, b *begun) int { return cmp.Compare(a.at, b.at) }) // map order is none
	for _, b := range left {
		c.unseen(b, c.j.now())
	}
}

// nowhere takes an answer that is not there.
type nowhere struct{}

func (nowhere) Header() http.Header         { return http.Header{} }
func (nowhere) Write(p []byte) (int, error) { return len(p), nil }
func (nowhere) WriteHeader(int)             {}

// apiPath is the part of a URL's path that is the API server's: what stands before it leads to the server, and
// may be a secret, as that of our own proxy is. It is not ok where the path is none of the API's.
func apiPath(path string) (string, bool) {
	for rest := path; rest != ""; {
		segments := strings.SplitN(rest[1:], "/", 3)
		switch segments[0] {
		case "apis", "openapi":
			return rest, true
		case "api":
			if len(segments) == 1 || segments[1] == "" || segments[1] == "v1" {
				return rest, true
			}
		case "version":
			if len(segments) == 1 {
				return rest, true
			}
		}
		next := strings.IndexByte(rest[1:], '/')
		if next < 0 {
			break
		}
		rest = rest[1+next:]
	}
	return "", false
}
