package wire

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

// h2stream is one stream of an HTTP/2 connection: an exchange's place on it.
type h2stream struct {
	h  *h2
	id uint32

	req  *http.Request
	body []byte
	x    *Exchange // once the request is whole

	window   int64  // what the client takes
	out      []byte // what it has not taken yet of the answer
	ending   bool   // END_STREAM comes after that
	finished bool   // the world is done with it
	lost     bool   // reset, by either side
}

// takeHeaders opens a stream, or ends a request by its trailers, which nobody here wants.
func (h *h2) takeHeaders(f *http2.MetaHeadersFrame) (*Exchange, error) {
	id := f.StreamID
	if s := h.find(id); s != nil {
		switch {
		case s.lost:
			return nil, nil
		case s.x != nil:
			return nil, http2.StreamError{StreamID: id, Code: http2.ErrCodeStreamClosed}
		case !f.StreamEnded() || len(f.PseudoFields()) > 0:
			return nil, http2.StreamError{StreamID: id, Code: http2.ErrCodeProtocol}
		}
		return s.whole()
	}
	if id%2 == 0 {
		return nil, http2.ConnectionError(http2.ErrCodeProtocol)
	}
	if id <= h.last { // trailers of a stream that was reset
		return nil, http2.StreamError{StreamID: id, Code: http2.ErrCodeStreamClosed}
	}
	h.last = id
	if len(h.streams) >= h2Streams {
		return nil, http2.StreamError{StreamID: id, Code: http2.ErrCodeRefusedStream}
	}
	s := &h2stream{h: h, id: id, window: h.first}
	h.streams = append(h.streams, s)
	if f.Truncated {
		s.refuse(http.StatusRequestHeaderFieldsTooLarge, f.StreamEnded())
		return nil, nil
	}
	var err error
	if s.req, err = requestOf(f); err != nil {
		return nil, http2.StreamError{StreamID: id, Code: http2.ErrCodeProtocol, Cause: err}
	}
	if f.StreamEnded() {
		return s.whole()
	}
	if s.req.Header.Get("Expect") == "100-continue" {
		s.headers(false, hpack.HeaderField{Name: ":status", Value: "100"})
	}
	return nil, nil
}

// takeData takes a part of a request's body.
func (h *h2) takeData(f *http2.DataFrame) (*Exchange, error) {
	if f.Length > 0 {
		_ = h.fr.WriteWindowUpdate(0, f.Length) // with its padding (RFC 9113 §6.9.1)
	}
	if h.idle(f.StreamID) {
		return nil, http2.ConnectionError(http2.ErrCodeProtocol)
	}
	s := h.find(f.StreamID)
	switch {
	case s == nil || s.lost: // it was reset while this was on its way
		return nil, nil
	case s.x != nil:
		return nil, http2.StreamError{StreamID: s.id, Code: http2.ErrCodeStreamClosed}
	case int64(len(s.body)+len(f.Data())) > h.conn.opts.MaxBody:
		s.refuse(http.StatusRequestEntityTooLarge, f.StreamEnded())
		return nil, nil
	case h.held+int64(len(f.Data())) > 4*h.conn.opts.MaxBody:
		return nil, http2.StreamError{StreamID: s.id, Code: http2.ErrCodeEnhanceYourCalm}
	}
	s.body = append(s.body, f.Data()...)
	h.held += int64(len(f.Data()))
	if f.StreamEnded() {
		return s.whole()
	}
	if f.Length > 0 {
		_ = h.fr.WriteWindowUpdate(s.id, f.Length)
	}
	return nil, nil
}

// whole makes the exchange of a request that is complete.
func (s *h2stream) whole() (*Exchange, error) {
	if n := s.req.Header.Get("Content-Length"); n != "" && n != strconv.Itoa(len(s.body)) {
		return nil, http2.StreamError{StreamID: s.id, Code: http2.ErrCodeProtocol}
	}
	s.h.held -= int64(len(s.body))
	s.req.Body = io.NopCloser(bytes.NewReader(s.body))
	s.req.ContentLength = int64(len(s.body))
	s.x = &Exchange{conn: s.h.conn, via: (*h2answer)(s), Request: s.req, Body: s.body}
	s.req, s.body = nil, nil
	return s.x, nil
}

// refuse answers a request that is not executed, and wants no more of it (RFC 9113 §8.1).
func (s *h2stream) refuse(code int, ended bool) {
	s.headers(true, hpack.HeaderField{Name: ":status", Value: strconv.Itoa(code)})
	if ended {
		s.h.close(s)
		return
	}
	s.h.reset(s.id, http2.ErrCodeNo)
}

// connectionFields are the header fields that are about a connection, which HTTP/2 has not (§8.2.2).
var connectionFields = []string{"connection", "proxy-connection", "keep-alive", "transfer-encoding", "upgrade"}

var errMalformed = errors.New("malformed request")

// requestOf is the request that header fields say (§8.3.1).
func requestOf(f *http2.MetaHeadersFrame) (*http.Request, error) {
	method, path, host := f.PseudoValue("method"), f.PseudoValue("path"), f.PseudoValue("authority")
	if method == "" || method == http.MethodConnect || path == "" || f.PseudoValue("scheme") == "" || f.PseudoValue("status") != "" {
		return nil, errMalformed
	}
	u, err := url.ParseRequestURI(path)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errMalformed, err)
	}
	header := http.Header{}
	for _, p := range f.RegularFields() {
		if slices.Contains(connectionFields, p.Name) || p.Name == "te" && p.Value != "trailers" {
			return nil, fmt.Errorf("%w: it has the field %s", errMalformed, p.Name)
		}
		header.Add(p.Name, p.Value)
	}
	if host == "" {
		host = header.Get("Host")
	}
	header.Del("Host")
	if c := header["Cookie"]; len(c) > 1 {
		header.Set("Cookie", strings.Join(c, "; ")) // §8.2.3
	}
	return &http.Request{
		Method: method, URL: u, RequestURI: path, Host: host, Header: header,
		Proto: "HTTP/2.0", ProtoMajor: 2, Body: http.NoBody,
	}, nil
}

// headers sends a header, in as many frames as it takes.
func (s *h2stream) headers(end bool, fields ...hpack.HeaderField) {
	h := s.h
	h.hb.Reset()
	for _, f := range fields {
		_ = h.enc.WriteField(f) // into a buffer
	}
	block := h.hb.Bytes()
	n := min(len(block), h.frame)
	_ = h.fr.WriteHeaders(http2.HeadersFrameParam{StreamID: s.id, BlockFragment: block[:n], EndStream: end, EndHeaders: n == len(block)})
	for block = block[n:]; len(block) > 0; block = block[n:] {
		n = min(len(block), h.frame)
		_ = h.fr.WriteContinuation(s.id, n == len(block), block[:n])
	}
}

// h2answer is a stream as the world answers on it, between two turns of the coroutine.
type h2answer h2stream

func (a *h2answer) whole(r *http.Request, m Handover) {
	if a.lost {
		return
	}
	length, body, _ := payload(r, m)
	a.header(m, length, len(body) == 0)
	if len(body) > 0 {
		a.out, a.ending = body, true
		a.h.pump()
	}
}

func (a *h2answer) begin(m Handover) {
	if !a.lost {
		a.header(m, "", false)
	}
}

// oneLine keeps a field's value within its line, as http.Header.Write does.
var oneLine = strings.NewReplacer("\n", " ", "\r", " ")

func (a *h2answer) header(m Handover, length string, end bool) {
	h := m.Header.Clone()
	if h == nil {
		h = http.Header{}
	}
	h.Del("Content-Length")
	if length != "" {
		h.Set("Content-Length", length)
	}
	if now := a.h.conn.opts.Now; now != nil {
		h.Set("Date", now().UTC().Format(http.TimeFormat))
	}
	fields := []hpack.HeaderField{{Name: ":status", Value: strconv.Itoa(m.Code)}}
	for _, key := range slices.Sorted(maps.Keys(h)) {
		name := strings.ToLower(key)
		if slices.Contains(connectionFields, name) {
			continue // the API server's watches are chunked in HTTP/1.1
		}
		for _, v := range h[key] {
			fields = append(fields, hpack.HeaderField{Name: name, Value: oneLine.Replace(v)})
		}
	}
	s := (*h2stream)(a)
	s.headers(end, fields...)
	a.h.send()
	if end {
		a.h.close(s)
	}
}

func (a *h2answer) more(b []byte) {
	if !a.lost && len(b) > 0 {
		a.out = append(a.out, b...)
		a.h.pump()
	}
}

func (a *h2answer) end() {
	if !a.lost {
		a.ending = true
		a.h.pump()
	}
}

func (a *h2answer) done() {
	a.finished = true
	if a.lost {
		a.h.close((*h2stream)(a))
	}
}

// fail breaks off the stream; the connection goes on.
func (a *h2answer) fail(error) {
	if !a.lost {
		a.h.reset(a.id, http2.ErrCodeInternal)
		a.h.send()
	}
}

func (a *h2answer) stream() int  { return int(a.id) }
func (a *h2answer) gone() bool   { return a.lost }
func (a *h2answer) pending() int { return a.h.conn.Pending() + len(a.out) }
