package front

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"time"

	"github.com/opreplay/opreplay/internal/apicall"
	"github.com/opreplay/opreplay/sim"
	"github.com/opreplay/opreplay/sim/fault"
	"github.com/opreplay/opreplay/sim/store"
	"github.com/opreplay/opreplay/sim/wire"
)

// DefaultLatency is how long a request, an answer or an event is on its way when no plan says otherwise.
const DefaultLatency = time.Millisecond

// Options of a Door.
type Options struct {
	World *sim.World
	// Handler is the API server. It believes the headers X-Remote-User and X-Remote-Group.
	Handler http.Handler
	// Tap records what passes.
	Tap *apicall.Tap
	// Faults is the plan in this run; nil for none.
	Faults *fault.Machine
	// Store is what the API server stores in: for views of the past, versions that are gone, and the times of
	// commits; nil where no plan needs it.
	Store *store.Store
	// Act, if set, carries out what a plan does to processes and the clock, and is told of what it does to
	// watches, which the door has done by then. It must not ask the door for anything but Disconnect.
	Act func(fault.Action) error
	// Latency is how long each request, answer and event is on its way; 0 means DefaultLatency.
	Latency time.Duration
	// Arrived, if set, is told of every call of a process when it arrives.
	Arrived func(fault.Call)
	// Prepare, if set, is asked before a call of a process runs for what a recording says of the object
	// that it writes, and is told the answer's status code; a call that does not run is not asked about.
	Prepare func(fault.Call, *http.Request) (hint store.Hint, done func(code int))
	// Aging has the world's time do what a real API server does by its clock: watches get bookmarks about every minute,
	// and old versions are compacted every five minutes.
	Aging bool
	// Dial connects the API server to a webhook; nil: it reaches none. HOST is as in the URL.
	Dial func(host string, port int) (wire.Stream, error)
}

// Client is who is at the other end of a connection.
type Client struct {
	Process string // in the trace's process columns
	User    string
	Groups  []string
}

// Door serves the connections of a world's processes. It is a sim.Source.
type Door struct {
	o       Options
	links   []*link // open connections, in the order in which they were opened
	opened  int
	err     error       // what ends the run
	streams []*exchange // watches under way, in the order in which they began
	seeing  []*observer
	lifes   *rand.Rand // of watches
	rhythm  *rand.Rand // of bookmarks

	commits  []commit          // when versions came to be, in order
	versions map[int]uint64    // by the number of the plan's rule that wanted it remembered
	shown    map[string]string // by process: the fault whose view of the past it is shown
	notes    []string
	calls    []*callOut // under way, in the order in which they began
	called   int
	turn     wire.Turn // of the API server's handlers
}

// link is one connection.
type link struct {
	id     int
	client Client
	conn   *wire.Conn
	now    []*exchange // what is under way on it, in the order in which it came; one call at most in HTTP/1.1
}

func (l *link) lane() string { return fmt.Sprintf("conn/%06d", l.id) }

// ended takes a call off those under way.
func (l *link) ended(e *exchange) {
	l.now = slices.DeleteFunc(l.now, func(o *exchange) bool { return o == e })
}

// New makes a door without connections.
func New(o Options) *Door {
	if o.Latency == 0 {
		o.Latency = DefaultLatency
	}
	if o.Faults == nil {
		o.Faults = fault.NewMachine(&fault.Plan{}, fault.Options{})
	}
	if o.Arrived == nil {
		o.Arrived = func(fault.Call) {}
	}
	if o.Prepare == nil {
		o.Prepare = func(fault.Call, *http.Request) (store.Hint, func(int)) { return store.Hint{}, func(int) {} }
	}
	if o.Act == nil {
		o.Act = func(fault.Action) error { return nil }
	}
	d := &Door{
		o: o, versions: map[int]uint64{}, shown: map[string]string{},
		lifes: o.World.Rand("lifetimes of watches"), rhythm: o.World.Rand("bookmarks"),
	}
	if o.Store != nil {
		d.compactLater(o.Store.ResourceVersion())
	}
	return d
}

// Accept takes a connection that a process has opened.
func (d *Door) Accept(c Client, s wire.Stream, o wire.Options) {
	d.opened++
	if o.Now == nil {
		o.Now = d.o.World.Now
	}
	d.links = append(d.links, &link{id: d.opened, client: c, conn: wire.NewConn(s, o)})
}

// Collect implements sim.Source: it reads what the processes have sent.
func (d *Door) Collect() (moved bool, err error) {
	open := d.links[:0:0]
	for _, l := range d.links {
		if d.collect(l) {
			moved = true
		}
		if l.conn.Closed() {
			d.hungUp(l)
			continue
		}
		open = append(open, l)
	}
	d.links = open
	for _, o := range d.calls {
		if d.poll(o) {
			moved = true
		}
	}
	return moved, d.err
}

func (d *Door) collect(l *link) (moved bool) {
	before := l.conn.Moved()
	l.conn.Flush()
	for x := l.conn.Next(); x != nil; x = l.conn.Next() {
		d.arrive(l, x)
		moved = true
	}
	for _, e := range slices.Clone(l.now) {
		if (e.stream != nil || d.waits(e.x)) && e.x.Gone() {
			d.sever(e)
			moved = true
		}
	}
	return moved || l.conn.Moved() != before
}

// sever breaks off a call: its connection in HTTP/1.1, which Collect ends, or its stream alone.
func (d *Door) sever(e *exchange) {
	e.x.Drop()
	if !e.link.conn.Closed() {
		d.vanish(e)
	}
}

// hungUp ends what a closed connection had under way.
func (d *Door) hungUp(l *link) {
	for _, e := range slices.Clone(l.now) {
		d.vanish(e)
	}
	l.conn.Close()
	d.o.World.CancelLane(l.lane())
}

// vanish ends a call that nobody waits for any more.
func (d *Door) vanish(e *exchange) {
	d.forget(e)
	e.rec.Finish(false)
	e.link.ended(e)
	e.vanished = true
	if !e.reached {
		d.soon(d.o.Faults.Dropped(e.verdict.Ticket))
	}
	d.abandon(e.x)
	d.o.World.CancelLane(e.lane())
}

// Disconnect closes all connections of a process, as its death does.
func (d *Door) Disconnect(process string) {
	open := d.links[:0:0]
	for _, l := range d.links {
		if l.client.Process == process {
			d.hungUp(l)
			continue
		}
		open = append(open, l)
	}
	d.links = open
}

// Close ends all connections; no handler runs when it has returned.
func (d *Door) Close() {
	for _, l := range d.links {
		d.hungUp(l)
	}
	for _, o := range d.seeing {
		o.x.Cancel()
	}
	d.links, d.seeing = nil, nil
}

// fail keeps the first error, with which Collect ends the run.
func (d *Door) fail(err error) {
	if d.err == nil {
		d.err = err
	}
}

func (d *Door) after(delay time.Duration, it sim.Item) *sim.Item {
	return d.o.World.After(delay, it)
}
