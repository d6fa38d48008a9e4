package front

import (
	"bytes"
	"fmt"
	"io"
	"net/http"

	"github.com/opreplay/opreplay/internal/apicall"
	"github.com/opreplay/opreplay/sim/wire"
)

// sink takes what the record of a call lets through.
type sink struct {
	header http.Header
	code   int
	body   []byte
}

func newSink() *sink { return &sink{header: http.Header{}, code: http.StatusOK} }

func (s *sink) Header() http.Header { return s.header }

func (s *sink) WriteHeader(code int) { s.code = code }

func (s *sink) Write(b []byte) (int, error) {
	s.body = append(s.body, b...)
	return len(b), nil
}

func (s *sink) take() []byte {
	b := s.body
	s.body = nil
	return b
}

// Outsider is the transport of someone who is no process of the world, such as a scripted user. A call
// runs whole within the step that makes it, is recorded and counted by the plan, and is never altered.
func (d *Door) Outsider(user string, groups ...string) http.RoundTripper {
	return &outsider{d, Client{User: user, Groups: groups}}
}

type outsider struct {
	d *Door
	c Client
}

// RoundTrip implements http.RoundTripper. If the call is one that webhooks are asked about, the world is
// stepped until they have answered.
func (o *outsider) RoundTrip(r *http.Request) (*http.Response, error) {
	in := r.Clone(r.Context())
	in.RequestURI = r.URL.RequestURI()
	if in.Body == nil {
		in.Body = http.NoBody
	}
	out := newSink()
	rec := o.d.o.Tap.Open(out, identified(in, o.c))
	v := o.d.o.Faults.Arrive(callOf(rec, ""))
	o.d.remember(v, false)
	if err := o.d.carryOut(v.Before); err != nil {
		return nil, err
	}
	if err := o.serve(rec); err != nil {
		return nil, err
	}
	o.d.remember(v, true)
	fx := o.d.o.Faults.Done(v.Ticket)
	rec.Finish(true)
	o.d.Committed()
	if err := o.d.heed(fx); err != nil {
		return nil, err
	}
	o.d.soon(o.d.o.Faults.Answered(v.Ticket))
	return &http.Response{
		Status: http.StatusText(out.code), StatusCode: out.code, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: out.header, Body: io.NopCloser(bytes.NewReader(out.body)), ContentLength: int64(len(out.body)), Request: r,
	}, nil
}

// serve runs the handler to its end.
func (o *outsider) serve(rec *apicall.Recording) error {
	q := rec.Request()
	body, err := io.ReadAll(q.Body)
	if err != nil {
		return err
	}
	x := wire.NewExchange(q, body)
	m, err := o.d.finish(x, x.Run(o.d.turn.With(q.Context()), o.d.o.Handler))
	if err != nil {
		return err
	}
	if m.Panic != "" {
		return fmt.Errorf("the API server panicked: %s", m.Panic)
	}
	w := rec.Writer()
	for k, v := range m.Header {
		w.Header()[k] = v
	}
	w.WriteHeader(m.Code)
	_, _ = w.Write(m.Body) // the sink takes everything
	return nil
}
