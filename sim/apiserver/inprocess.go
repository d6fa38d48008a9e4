package apiserver

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"sync"
)

// inProcess is an http.RoundTripper that calls a handler in this process: no socket, no port. An answer
// that is never flushed arrives whole; a flushed one (a watch) streams.
type inProcess struct {
	handler func() http.Handler
	context func(context.Context) context.Context
}

// RoundTrip implements http.RoundTripper.
func (t *inProcess) RoundTrip(req *http.Request) (*http.Response, error) {
	ctx, cancel := context.WithCancel(req.Context())
	r := req.Clone(t.context(ctx))
	r.RequestURI = req.URL.RequestURI()
	r.RemoteAddr = "127.0.0.1:1" // a port that no client has
	if r.Host == "" {
		r.Host = req.URL.Host
	}
	if r.Body == nil {
		r.Body = http.NoBody
	}
	w := &answer{header: http.Header{}, req: req, cancel: cancel, ready: make(chan *http.Response, 1)}
	go func() {
		defer cancel()
		defer w.finish()
		t.handler().ServeHTTP(w, r)
	}()
	select {
	case resp := <-w.ready:
		return resp, nil
	case <-req.Context().Done():
		cancel()
		return nil, req.Context().Err()
	}
}

// answer is the server's side of one in-process exchange.
type answer struct {
	header http.Header
	req    *http.Request
	cancel context.CancelFunc
	ready  chan *http.Response // capacity 1: the client may have left

	mu     sync.Mutex // handlers may write from several goroutines
	code   int
	buffer bytes.Buffer
	stream *io.PipeWriter // set by the first Flush
}

// Header implements http.ResponseWriter.
func (w *answer) Header() http.Header { return w.header }

// WriteHeader implements http.ResponseWriter.
func (w *answer) WriteHeader(code int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.code == 0 {
		w.code = code
	}
}

// Write implements http.ResponseWriter.
func (w *answer) Write(b []byte) (int, error) {
	w.WriteHeader(http.StatusOK)
	w.mu.Lock()
	stream := w.stream
	if stream == nil {
		defer w.mu.Unlock()
		return w.buffer.Write(b)
	}
	w.mu.Unlock()
	return stream.Write(b)
}

// Flush implements http.Flusher: from the first one on, the answer streams.
func (w *answer) Flush() {
	w.WriteHeader(http.StatusOK)
	w.mu.Lock()
	if w.stream != nil {
		w.mu.Unlock()
		return
	}
	r, stream := io.Pipe()
	w.stream = stream
	head := bytes.Clone(w.buffer.Bytes())
	w.ready <- w.response(&streamBody{r, w.cancel}, -1) //nolint:bodyclose // the client's to close
	w.mu.Unlock()
	if len(head) > 0 {
		_, _ = stream.Write(head) // fails when the client left; so will the next Write
	}
}

// CloseNotify implements http.CloseNotifier, without which the API server's wrappers hide Flush.
func (w *answer) CloseNotify() <-chan bool {
	gone := make(chan bool, 1)
	context.AfterFunc(w.req.Context(), func() { gone <- true })
	return gone
}

// finish ends the answer. A handler that panicked to abort has the client see a broken stream.
func (w *answer) finish() {
	p := recover()
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case w.stream != nil && p != nil:
		_ = w.stream.CloseWithError(io.ErrUnexpectedEOF)
	case w.stream != nil:
		_ = w.stream.Close()
	default:
		if p != nil && w.code == 0 {
			w.code = http.StatusInternalServerError
		}
		w.ready <- w.response(io.NopCloser(bytes.NewReader(w.buffer.Bytes())), int64(w.buffer.Len())) //nolint:bodyclose // the client's to close
	}
}

func (w *answer) response(body io.ReadCloser, length int64) *http.Response {
	if w.code == 0 {
		w.code = http.StatusOK
	}
	return &http.Response{
		Status: http.StatusText(w.code), StatusCode: w.code, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: w.header.Clone(), Body: body, ContentLength: length, Request: w.req,
	}
}

// streamBody ends the handler when the client closes the body.
type streamBody struct {
	*io.PipeReader
	cancel context.CancelFunc
}

// Close implements io.Closer.
func (b *streamBody) Close() error {
	b.cancel()
	return b.PipeReader.Close()
}
