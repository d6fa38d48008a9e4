package wire

import "net/http"

// responder is the http.ResponseWriter of a handler in its own goroutine. It also is a CloseNotifier:
// without that the API server's wrapper for HTTP/1 and 2 hides the Flusher
// (k8s.io/apiserver/pkg/endpoints/responsewriter).
type responder struct {
	x      *Exchange
	header http.Header
	code   int
	wrote  bool
	begun  bool // the header of a stream was handed over
	buf    []byte
}

func (w *responder) Header() http.Header { return w.header }

func (w *responder) WriteHeader(code int) {
	if !w.wrote && code >= 200 {
		w.wrote, w.code = true, code
	}
}

func (w *responder) Write(b []byte) (int, error) {
	w.WriteHeader(http.StatusOK)
	w.buf = append(w.buf, b...)
	return len(b), nil
}

// Flush hands over. A flush of nothing after the header is dropped: the watch handler flushes twice
// after the bookmark that ends the initial events.
func (w *responder) Flush() {
	w.WriteHeader(http.StatusOK)
	if !w.x.stream || w.begun && len(w.buf) == 0 {
		return
	}
	w.begun = true
	w.x.hand <- w.take(false)
}

// CloseNotify implements http.CloseNotifier; the end of the connection comes by the context.
func (w *responder) CloseNotify() <-chan bool { return nil }

func (w *responder) take(done bool) Handover {
	// As net/http does for a handler that does not say what it writes.
	if _, said := w.header["Content-Type"]; !said && len(w.buf) > 0 && !w.begun {
		w.header.Set("Content-Type", http.DetectContentType(w.buf))
	}
	m := Handover{Done: done, Code: w.code, Header: w.header, Body: w.buf}
	w.buf = nil
	return m
}
