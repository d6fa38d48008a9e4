package front

import (
	"fmt"
	"strings"
	"time"

	"github.com/opreplay/opreplay/sim"
	"github.com/opreplay/opreplay/sim/fault"
	"github.com/opreplay/opreplay/sim/store"
	"github.com/opreplay/opreplay/sim/wire"
)

// Began implements store.Puller: the handler's watch is ours to feed, and its flushes are hand-overs.
func (e *exchange) Began(s *store.Stream) {
	e.stream = s
	e.x.Stream()
}

// begin lets a watch whose header is out have its events.
func (d *Door) begin(e *exchange) {
	d.streams = append(d.streams, e)
	e.began = d.o.World.Nanos()
	life := e.life
	if life == 0 {
		// As an API server: between one and two times its minimum (--min-request-timeout, 30 minutes;
		// k8s.io/apiserver/pkg/endpoints/handlers/get.go).
		const least = 30 * time.Minute
		life = least + time.Duration(d.lifes.Int64N(int64(least)))
	}
	e.expires = d.after(life, sim.Item{
		Kind: "answer", Subject: fmt.Sprintf("%s: time is up", e),
		Apply: func() error { d.endStream(e); return nil },
	})
	d.bookmarkLater(e)
	d.schedule(e, d.o.Latency)
}

// Committed looks for events that commits have made due. The world's own writers call it after theirs.
func (d *Door) Committed() {
	d.note()
	for _, o := range d.seeing {
		d.fail(o.drain())
	}
	for _, e := range d.streams {
		d.schedule(e, d.o.Latency)
		if e.ahead {
			d.lookAhead(e)
		}
	}
}

// schedule puts a watch's next event on the agenda, if there is one and none is there yet.
func (d *Door) schedule(e *exchange, latency time.Duration) {
	if e.next != nil {
		return
	}
	ev, ok := e.stream.Peek()
	if !ok {
		if e.stream.Ended() {
			e.next = d.after(latency, sim.Item{
				Lane: e.lane(), Kind: "deliver", Subject: fmt.Sprintf("%s: ends", e),
				Apply: func() error { d.endStream(e); return nil },
			})
		}
		return
	}
	info := e.stream.Info()
	about := e.event(ev)
	delivery := d.o.Faults.Deliver(about)
	if !e.asked {
		e.asked, e.due = true, d.since(e, ev)+int64(d.o.Latency+delivery.Delay)
		e.ahead, e.told = delivery.Ahead, ev.ResourceVersion
	}
	at := max(d.o.World.Nanos()+int64(latency), e.due)
	if e.held = delivery.Held; e.held {
		at = sim.Never
	}
	e.next = d.o.World.At(at, sim.Item{
		Lane: e.lane(), Kind: "deliver", About: about, Rule: strings.Join(delivery.Rules, "; "),
		Subject: fmt.Sprintf("%s %s %s@%d to %s", ev.Type, info.Resource.Resource,
			strings.TrimPrefix(ev.Namespace+"/"+ev.Name, "/"), ev.ResourceVersion, e.link.client.Process),
		Apply: func() error { return d.deliver(e) },
	})
	d.soon(delivery.Effect)
	if e.ahead {
		d.lookAhead(e)
	}
}

// event is an event of the stream in the faults' words.
func (e *exchange) event(ev store.Event) fault.Event {
	info := e.stream.Info()
	kind := string(ev.Type)
	if ev.Initial {
		kind = "INITIAL" // an item of a list: it waits with its stream, and no selector means it
	}
	return fault.Event{
		Client: e.link.client.Process, Stream: e.lane(), Type: kind,
		Group: info.Resource.Group, Version: e.call.Version, Resource: info.Resource.Resource, Namespace: ev.Namespace, Name: ev.Name,
		ResourceVersion: int64(ev.ResourceVersion),
	}
}

// lookAhead tells the faults of what has come to wait behind a stream's next event.
func (d *Door) lookAhead(e *exchange) {
	for _, ev := range e.stream.Ahead(e.told) {
		e.told = ev.ResourceVersion
		d.soon(d.o.Faults.Behind(e.event(ev)))
	}
}

// deliver hands one event to the handler and what the handler makes of it to the client.
func (d *Door) deliver(e *exchange) error {
	e.next = nil
	if e.x.Pending() > 0 { // the client has not read the last one yet
		d.schedule(e, d.o.Latency)
		return nil
	}
	e.asked, e.ahead = false, false
	m := wire.AwaitOr(e.x, e.stream.C(), e.stream.Take())
	if m.Panic != "" {
		return fmt.Errorf("the API server panicked in a watch: %s", m.Panic)
	}
	if len(m.Body) > 0 {
		_, _ = e.rec.Writer().Write(m.Body)
		e.x.Answer(wire.Handover{Body: e.out.take()})
	}
	if m.Done {
		d.endStream(e)
		return nil
	}
	d.schedule(e, 0)
	return nil
}

// release asks the faults again about every event that is held.
func (d *Door) release() {
	for _, e := range d.streams {
		if e.held && e.next != nil {
			d.o.World.Cancel(e.next)
			e.next, e.held = nil, false
			d.schedule(e, d.o.Latency)
		}
	}
}

// endStream ends a watch in order; its client may use the connection again.
func (d *Door) endStream(e *exchange) {
	d.forget(e)
	e.rec.Finish(true)
	e.link.ended(e)
	e.x.EndStream()
}

// forget takes a watch off the list and the agenda.
func (d *Door) forget(e *exchange) {
	if e.next != nil {
		d.o.World.Cancel(e.next)
		e.next = nil
	}
	for _, it := range []*sim.Item{e.expires, e.bookmark} {
		if it != nil {
			d.o.World.Cancel(it)
		}
	}
	for i, o := range d.streams {
		if o == e {
			d.streams = append(d.streams[:i:i], d.streams[i+1:]...)
			d.o.Faults.Closed(e.lane())
			break
		}
	}
}
