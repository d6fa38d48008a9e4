package apicall

import (
	"bufio"
	"bytes"
	"net"
	"net/http"
	"time"

	"github.com/opreplay/opreplay/traces"
)

// answer is the ResponseWriter that a call's handler writes to. It has no Unwrap on purpose:
// k8s.io/apiserver's responsewriter.GetOriginal would reach round it.
type answer struct {
	call *call
	w    http.ResponseWriter
	rc   *http.ResponseController

	code     int
	form     form
	hijacked bool

	// Of a held answer.
	collected []byte // all of it, up to the limit
	tooLarge  bool
	held      []byte // the last piece, not passed on yet

	// Of a watch.
	media  string
	frames splitter
	broken bool
}

func (a *answer) Header() http.Header { return a.w.Header() }

func (a *answer) WriteHeader(code int) {
	if code >= 100 && code < 200 && code != http.StatusSwitchingProtocols {
		a.w.WriteHeader(code) // informational: the answer is still to come
		return
	}
	if a.code != 0 {
		return
	}
	a.code = code
	a.form = a.call.form
	if a.form == watch {
		a.openWatch()
	}
	a.w.WriteHeader(code)
}

// openWatch chooses how the frames are split; a refused watch is an answer like any other.
func (a *answer) openWatch() {
	h := a.w.Header()
	if a.code != http.StatusOK {
		a.form = whole
		return
	}
	a.media = mediaType(h.Get("Content-Type"))
	switch e := h.Get("Content-Encoding"); {
	case e != "" && e != "identity":
		a.breakWatch("a watch in content encoding " + e)
	case a.media == mediaJSON:
		a.frames = &jsonSplitter{limit: a.call.tap.o.Limit}
	case a.media == mediaProtobuf:
		a.frames = &lengthSplitter{limit: a.call.tap.o.Limit}
	default:
		a.breakWatch("a watch of media type " + a.media)
	}
}

// breakWatch: the stream passes on, its further events can't be recorded.
func (a *answer) breakWatch(reason string) {
	a.broken = true
	// How many events the rest of the stream holds is not known; the count is of streams.
	a.call.tap.lose("watch/"+a.call.stream, reason+": its events are not recorded", 1)
}

func (a *answer) Write(p []byte) (int, error) {
	if a.code == 0 {
		a.WriteHeader(http.StatusOK)
	}
	switch a.form {
	case watch:
		a.follow(p)
		return a.w.Write(p)
	case opaque:
		return a.w.Write(p)
	default:
		return a.hold(p)
	}
}

// follow reads a watch's frames. A frame that ends within p is a row before p is passed on.
func (a *answer) follow(p []byte) {
	if a.broken {
		return
	}
	over := a.frames.oversized()
	err := a.frames.feed(p, func(frame []byte) {
		t, object, err := watchFrame(a.media, frame)
		if err == nil {
			object, err = a.call.redact("", object)
		}
		if err != nil {
			a.call.lose("a watch event: " + err.Error())
			return
		}
		a.call.event(traces.EventType(t), object)
	})
	if n := a.frames.oversized() - over; n > 0 {
		a.call.tap.lose("watch/"+a.call.stream, errTooLarge.Error(), n)
	}
	if err != nil {
		a.breakWatch(err.Error())
	}
}

// hold passes on all but the last piece: the client has the answer only when its row is appended.
func (a *answer) hold(p []byte) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	if len(a.held) > 0 {
		if _, err := a.w.Write(a.held); err != nil {
			return 0, err
		}
		a.held = a.held[:0]
	}
	limit := a.call.tap.o.Limit
	switch {
	case a.form == bare || a.tooLarge:
		a.held = append(a.held, p...)
	case len(a.collected)+len(p) > limit:
		a.tooLarge, a.collected = true, nil
		a.held = append([]byte(nil), p...)
	default:
		start := len(a.collected)
		a.collected = append(a.collected, p...)
		a.held = a.collected[start:]
	}
	return len(p), nil
}

// Flush implements http.Flusher, which the API server's watch handler insists on.
func (a *answer) Flush() { _ = a.FlushError() }

// FlushError passes a stream's flush on. A held answer goes out when it is complete.
func (a *answer) FlushError() error {
	if a.code == 0 {
		a.WriteHeader(http.StatusOK)
	}
	if a.form == watch || a.form == opaque {
		return a.rc.Flush()
	}
	return nil
}

// Hijack hands the connection over: an upgrade to SPDY or a websocket. Its bytes are not recorded.
func (a *answer) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	conn, rw, err := a.rc.Hijack()
	if err != nil {
		return nil, nil, err
	}
	a.hijacked = true
	if a.code == 0 {
		a.code = http.StatusSwitchingProtocols
	}
	if a.call.form == watch {
		a.breakWatch("a watch over a websocket")
	}
	return conn, rw, nil
}

// SetReadDeadline, SetWriteDeadline and EnableFullDuplex serve http.ResponseController.
func (a *answer) SetReadDeadline(t time.Time) error  { return a.rc.SetReadDeadline(t) }
func (a *answer) SetWriteDeadline(t time.Time) error { return a.rc.SetWriteDeadline(t) }
func (a *answer) EnableFullDuplex() error            { return a.rc.EnableFullDuplex() }

// CloseNotify implements http.CloseNotifier: deprecated, but k8s.io/apiserver takes a writer without it
// for one that cannot flush either (responsewriter.WrapForHTTP1Or2).
func (a *answer) CloseNotify() <-chan bool {
	if n, ok := a.w.(http.CloseNotifier); ok { //nolint:staticcheck // see above
		return n.CloseNotify()
	}
	gone := make(chan bool, 1)
	ctx := a.call.request.Context()
	go func() {
		<-ctx.Done()
		gone <- true
	}()
	return gone
}

// finish appends the call's rows, then lets the last piece go. completed is false when the handler
// panicked, which is how a reverse proxy says that one side went away in the middle.
func (a *answer) finish(completed bool) {
	c := a.call
	gone := c.request.Context().Err() != nil
	if a.code == 0 && completed && !gone {
		a.WriteHeader(http.StatusOK)
	}
	if a.form == whole && a.code != 0 && !a.hijacked {
		a.readAnswer(completed)
	}
	c.end(a.code, a.w.Header())
	if completed && !a.hijacked && len(a.held) > 0 {
		_, _ = a.w.Write(a.held)
	}
}

// readAnswer reads a whole answer into the row.
func (a *answer) readAnswer(completed bool) {
	c := a.call
	switch {
	case !completed:
		c.lose("an answer that was cut short")
		return
	case a.tooLarge:
		c.lose("answer: " + errTooLarge.Error())
		return
	case len(bytes.TrimSpace(a.collected)) == 0:
		return
	}
	h := a.w.Header()
	media := mediaType(h.Get("Content-Type"))
	if media == "text/plain" {
		return // an error page of the HTTP layer, not an answer of the API
	}
	if text, ok := c.read("answer", media, h.Get("Content-Encoding"), a.collected); ok {
		c.answered(a.code, text)
	}
}
