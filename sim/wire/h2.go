package wire

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

// The bounds of an HTTP/2 connection.
const (
	h2Streams = 250     // under way at a time, as the API server's (k8s.io/apiserver/pkg/server/secure_serving.go)
	h2Header  = 1 << 20 // bytes of a request's header fields, as net/http's
	h2Frame   = 16 << 10
	h2Window  = 64<<10 - 1 // in either direction until told otherwise (RFC 9113 §6.9.2)
	// h2Queue is how many frames are read while the client reads none of the answers to them.
	h2Queue = 10_000
)

// h2 is the server's side of HTTP/2 (RFC 9113). The coroutine reads frames and does at once what each asks
// for; answers are written by the world between two of its turns.
//
// Request bodies are kept whole, so what the client sends is given back to its windows at once; Options.MaxBody
// bounds a body, and four times that all that are unfinished.
type h2 struct {
	conn *Conn
	br   *bufio.Reader
	fr   *http2.Framer
	out  bytes.Buffer // frames of this turn
	enc  *hpack.Encoder
	hb   bytes.Buffer // what enc writes to

	streams []*h2stream // open ones, by number
	last    uint32      // the highest number that the client has used
	held    int64       // bytes of unfinished bodies
	queued  int

	window int64 // what the client takes on the connection,
	first  int64 // at first on a stream,
	frame  int   // and in a frame
}

func newH2(c *Conn, br *bufio.Reader) *h2 {
	h := &h2{conn: c, br: br, window: h2Window, first: h2Window, frame: h2Frame}
	h.fr = http2.NewFramer(&h.out, br)
	h.fr.SetMaxReadFrameSize(h2Frame)
	h.fr.ReadMetaHeaders = hpack.NewDecoder(4096, nil)
	h.fr.MaxHeaderListSize = h2Header
	h.enc = hpack.NewEncoder(&h.hb)
	c.many = h
	return h
}

// serve yields an Exchange for each request that is whole.
func (h *h2) serve(yield func(*Exchange) bool) error {
	if err := h.greet(); err != nil {
		return h.goAway(err)
	}
	for {
		f, err := h.fr.ReadFrame()
		var x *Exchange
		if err == nil {
			x, err = h.take(f)
		}
		var streamErr http2.StreamError
		switch {
		case err == nil:
		case errors.As(err, &streamErr) && streamErr.StreamID%2 == 1:
			h.reset(streamErr.StreamID, streamErr.Code)
		case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
			return h.leave(err, yield)
		default:
			return h.goAway(err)
		}
		h.pump()
		if h.queued++; h.conn.Pending() == 0 {
			h.queued = 0
		} else if h.queued > h2Queue {
			return h.goAway(http2.ConnectionError(http2.ErrCodeEnhanceYourCalm))
		}
		if x != nil && !yield(x) {
			return net.ErrClosed
		}
	}
}

// greet exchanges the prefaces (§3.4).
func (h *h2) greet() error {
	_ = h.fr.WriteSettings( // into a buffer, as all that the framer writes
		http2.Setting{ID: http2.SettingMaxConcurrentStreams, Val: h2Streams},
		http2.Setting{ID: http2.SettingMaxHeaderListSize, Val: h2Header})
	h.send()
	var preface [len(http2.ClientPreface)]byte
	if _, err := io.ReadFull(h.br, preface[:]); err != nil {
		return err
	}
	if string(preface[:]) != http2.ClientPreface {
		return fmt.Errorf("HTTP/2 was agreed upon, and the client began with %q", preface)
	}
	f, err := h.fr.ReadFrame()
	if err != nil {
		return err
	}
	if s, ok := f.(*http2.SettingsFrame); !ok || s.IsAck() {
		return http2.ConnectionError(http2.ErrCodeProtocol)
	}
	_, err = h.take(f)
	h.send()
	return err
}

// leave ends a connection that the client has closed. What it asked for is still under way; the world sees
// by Exchange.Gone that nobody wants the answers.
func (h *h2) leave(err error, yield func(*Exchange) bool) error {
	for _, s := range slices.Clone(h.streams) {
		if s.x == nil && errors.Is(err, io.EOF) {
			err = io.ErrUnexpectedEOF // in the middle of a request
		}
		h.give(s)
	}
	for len(h.conn.busy) > 0 {
		if !yield(nil) {
			return net.ErrClosed
		}
	}
	return err
}

// goAway ends the connection because of an error of the client's (§5.4.1).
func (h *h2) goAway(err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, net.ErrClosed) {
		return err
	}
	code := http2.ErrCodeProtocol
	var connErr http2.ConnectionError
	switch {
	case errors.As(err, &connErr):
		code = http2.ErrCode(connErr)
	case errors.Is(err, http2.ErrFrameTooLarge):
		code = http2.ErrCodeFrameSize
	}
	if detail := h.fr.ErrorDetail(); detail != nil {
		err = fmt.Errorf("%w: %w", err, detail)
	}
	_ = h.fr.WriteGoAway(h.last, code, nil)
	h.send()
	return fmt.Errorf("HTTP/2: %w", err)
}

// take does what a frame asks for, and returns the exchange if it makes a request whole.
func (h *h2) take(f http2.Frame) (*Exchange, error) {
	switch f := f.(type) {
	case *http2.MetaHeadersFrame:
		return h.takeHeaders(f)
	case *http2.DataFrame:
		return h.takeData(f)
	case *http2.SettingsFrame:
		return nil, h.takeSettings(f)
	case *http2.WindowUpdateFrame:
		return nil, h.takeWindow(f)
	case *http2.PingFrame:
		if !f.IsAck() {
			_ = h.fr.WritePing(true, f.Data)
		}
	case *http2.RSTStreamFrame:
		if h.idle(f.StreamID) {
			return nil, http2.ConnectionError(http2.ErrCodeProtocol)
		}
		if s := h.find(f.StreamID); s != nil {
			h.give(s)
		}
	case *http2.PushPromiseFrame: // a client must not (§8.4)
		return nil, http2.ConnectionError(http2.ErrCodeProtocol)
	}
	// A client's GOAWAY is about pushes, of which there are none; priorities and unknown frames mean nothing here.
	return nil, nil
}

func (h *h2) takeSettings(f *http2.SettingsFrame) error {
	if f.IsAck() {
		return nil
	}
	if f.NumSettings() > 100 || f.HasDuplicates() { // as net/http
		return http2.ConnectionError(http2.ErrCodeProtocol)
	}
	err := f.ForeachSetting(func(s http2.Setting) error {
		if err := s.Valid(); err != nil {
			return err
		}
		switch s.ID {
		case http2.SettingHeaderTableSize:
			h.enc.SetMaxDynamicTableSize(s.Val) // 4096 at most
		case http2.SettingMaxFrameSize:
			h.frame = int(s.Val)
		case http2.SettingInitialWindowSize:
			grown := int64(s.Val) - h.first
			h.first = int64(s.Val)
			for _, o := range h.streams {
				if o.window += grown; o.window > h2MaxWindow {
					return http2.ConnectionError(http2.ErrCodeFlowControl)
				}
			}
		default: // nothing that a server does depends on it
		}
		return nil
	})
	if err == nil {
		_ = h.fr.WriteSettingsAck()
	}
	return err
}

// h2MaxWindow is the most that a window may be (§6.9.1).
const h2MaxWindow = 1<<31 - 1

func (h *h2) takeWindow(f *http2.WindowUpdateFrame) error {
	if f.StreamID == 0 {
		if h.window += int64(f.Increment); h.window > h2MaxWindow {
			return http2.ConnectionError(http2.ErrCodeFlowControl)
		}
		return nil
	}
	if h.idle(f.StreamID) {
		return http2.ConnectionError(http2.ErrCodeProtocol)
	}
	if s := h.find(f.StreamID); s != nil {
		if s.window += int64(f.Increment); s.window > h2MaxWindow {
			return http2.StreamError{StreamID: s.id, Code: http2.ErrCodeFlowControl}
		}
	}
	return nil
}

// find is an open stream, or nil.
func (h *h2) find(id uint32) *h2stream {
	i, ok := slices.BinarySearchFunc(h.streams, id, func(s *h2stream, id uint32) int { return int(int64(s.id) - int64(id)) })
	if !ok {
		return nil
	}
	return h.streams[i]
}

// idle reports whether a stream has never been opened; even numbers are the server's, which opens none.
func (h *h2) idle(id uint32) bool { return id > h.last || id%2 == 0 }

// reset breaks a stream off.
func (h *h2) reset(id uint32, code http2.ErrCode) {
	if id%2 == 1 && id > h.last {
		h.last = id // its first frame was in error
	}
	_ = h.fr.WriteRSTStream(id, code)
	if s := h.find(id); s != nil {
		h.give(s)
	}
}

// give gives a stream up: nothing more is sent on it. It stays open, and counts, as long as the world is
// busy with it.
func (h *h2) give(s *h2stream) {
	s.lost, s.out, s.ending = true, nil, false
	if s.x == nil || s.finished {
		h.close(s)
	}
}

// close forgets a stream.
func (h *h2) close(s *h2stream) {
	if s.x == nil {
		h.held -= int64(len(s.body))
	}
	h.streams = slices.DeleteFunc(h.streams, func(o *h2stream) bool { return o == s })
}

// pump sends what the windows have room for, stream by stream, and what else there is to send.
func (h *h2) pump() {
	for _, s := range slices.Clone(h.streams) {
		for len(s.out) > 0 || s.ending {
			n := min(int64(len(s.out)), h.window, s.window, int64(h.frame))
			if n <= 0 && len(s.out) > 0 {
				break
			}
			last := s.ending && int(n) == len(s.out)
			_ = h.fr.WriteData(s.id, last, s.out[:n])
			s.out = s.out[n:]
			h.window -= n
			s.window -= n
			if last {
				h.close(s)
				break
			}
		}
	}
	h.send()
}

// send hands the frames of this turn to the connection.
func (h *h2) send() {
	h.conn.write(h.out.Bytes())
	h.out.Reset()
}
