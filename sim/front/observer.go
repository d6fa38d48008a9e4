package front

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"

	"github.com/opreplay/opreplay/internal/apicall"
	"github.com/opreplay/opreplay/sim/store"
	"github.com/opreplay/opreplay/sim/wire"
)

// observer is a watch of the world's own that sees every change the moment it is committed: the record
// of the whole cluster, whatever the processes watch. It is no step of the world and alters nothing.
type observer struct {
	x      *wire.Exchange
	rec    *apicall.Recording
	out    *sink
	stream *store.Stream
}

// Began implements store.Puller.
func (o *observer) Began(s *store.Stream) {
	o.stream = s
	o.x.Stream()
}

// Observe lists a collection, by its URL path, and records each of its changes from then on through TAP.
// served is false when the API server does not have it.
func (d *Door) Observe(tap *apicall.Tap, path string) (served bool, err error) {
	list := newSink()
	req, err := http.NewRequestWithContext(context.Background(), http.MethodGet, "http://w"+path, http.NoBody)
	if err != nil {
		return false, err
	}
	req.RequestURI = req.URL.RequestURI()
	rec := tap.Open(list, req)
	d.o.Handler.ServeHTTP(rec.Writer(), rec.Request())
	rec.Finish(true)
	if list.code == http.StatusNotFound || list.code == http.StatusMethodNotAllowed {
		return false, nil
	}
	var answer struct {
		Metadata struct{ ResourceVersion string }
	}
	if err := json.Unmarshal(list.body, &answer); err != nil || list.code != http.StatusOK {
		return false, fmt.Errorf("list %s: HTTP status %d", path, list.code)
	}
	return true, d.follow(tap, path+"?watch=true&resourceVersion="+answer.Metadata.ResourceVersion)
}

func (d *Door) follow(tap *apicall.Tap, target string) error {
	req, err := http.NewRequestWithContext(context.Background(), http.MethodGet, "http://w"+target, http.NoBody)
	if err != nil {
		return err
	}
	req.RequestURI = req.URL.RequestURI()
	o := &observer{out: newSink()}
	o.rec = tap.Open(o.out, req)
	o.x = wire.NewExchange(o.rec.Request(), nil)
	ctx := store.WithLasting(store.WithPuller(d.turn.With(context.Background()), o))
	m := o.x.Run(ctx, d.o.Handler)
	if m.Done || o.stream == nil {
		return fmt.Errorf("watch %s: HTTP status %d %s", target, m.Code, m.Panic)
	}
	o.write(m)
	d.seeing = append(d.seeing, o)
	return o.drain()
}

func (o *observer) write(m wire.Handover) {
	w := o.rec.Writer()
	for k, v := range m.Header {
		w.Header()[k] = v
	}
	w.WriteHeader(m.Code)
	_, _ = w.Write(m.Body)
	o.out.take() // it has been recorded, and nobody else wants it
}

// drain records what has been committed since the last time.
func (o *observer) drain() error {
	for {
		if _, ok := o.stream.Peek(); !ok {
			return nil
		}
		m := wire.AwaitOr(o.x, o.stream.C(), o.stream.Take())
		if m.Done {
			return fmt.Errorf("the world's own watch of %s ended: %s %s", o.x.Request.URL.Path, m.Body, m.Panic)
		}
		o.write(m)
	}
}
