package conformance

import (
	"context"
	"io"
	"net"
	"net/http"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/opreplay/opreplay/internal/apicall"
	"github.com/opreplay/opreplay/sim"
	"github.com/opreplay/opreplay/sim/apiserver"
	"github.com/opreplay/opreplay/sim/front"
	"github.com/opreplay/opreplay/sim/wire"
	"github.com/opreplay/opreplay/traces"
)

// unrecorded is the record of a world whose rows nobody wants.
type unrecorded struct{}

func (unrecorded) Append(traces.Record) error { return nil }
func (unrecorded) Seq() int64                 { return 0 }

// paced is a world's clock which the wall clock pushes on, lag behind it, and which each step pushes on too. No process
// runs in it: they are the test's clients.
type paced struct {
	mu  sync.Mutex
	now int64
}

func (p *paced) Run(context.Context) error { return nil }
func (p *paced) NextTimer() (int64, bool)  { return 0, false }

func (p *paced) Now() int64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.now
}

func (p *paced) AdvanceTo(at int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.now = max(p.now, at)
}

// keepUp moves the clock on to the wall's.
func (p *paced) keepUp() { p.AdvanceTo(time.Now().Add(-lag).UnixNano()) }

// doorway is where the test's clients reach the world's door as its processes do: on byte streams, call by call and
// event by event.
type doorway struct {
	clock *paced
	world *sim.World
	door  *front.Door
	mu    sync.Mutex // over the world
	wake  chan struct{}
}

// throughDoor is a Server behind a door. HANDLER believes who the caller says he is.
func throughDoor(t *testing.T, s *apiserver.Server, clock *paced) *http.Transport {
	t.Helper()
	w := &doorway{clock: clock, wake: make(chan struct{}, 1)}
	w.world = sim.New(sim.Options{Seed: 1, Processes: w.clock})
	w.door = front.New(front.Options{
		World: w.world, Handler: s.Handler(), Tap: apicall.New(unrecorded{}, apicall.Options{Now: w.world.Now}), Store: s.Store(), Aging: true,
	})
	w.world.AddSource(w.door)
	ctx, stop := context.WithCancel(context.Background())
	var loop sync.WaitGroup
	loop.Go(func() { w.turn(ctx, t) })
	transport := &http.Transport{
		DisableCompression: true, MaxIdleConnsPerHost: 10,
		DialContext: func(context.Context, string, string) (net.Conn, error) { return w.dial(), nil },
	}
	t.Cleanup(func() {
		transport.CloseIdleConnections()
		stop()
		loop.Wait()
		w.door.Close()
	})
	return transport
}

// dial opens a connection.
func (w *doorway) dial() net.Conn {
	ours, theirs := net.Pipe()
	end := &pump{conn: theirs, wake: w.stir}
	go end.fill()
	w.mu.Lock()
	defer w.mu.Unlock()
	w.door.Accept(front.Client{Process: "test", User: "admin", Groups: []string{"system:masters"}}, end, wire.Options{})
	return ours
}

// stir says that there may be something to do.
func (w *doorway) stir() {
	select {
	case w.wake <- struct{}{}:
	default:
	}
}

// turn keeps the world going.
func (w *doorway) turn(ctx context.Context, t *testing.T) {
	tick := time.NewTicker(20 * time.Millisecond) // watches end, and the like, by the world's clock
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-w.wake:
		case <-tick.C:
		}
		if err := w.steps(ctx); err != nil && ctx.Err() == nil {
			t.Errorf("the world: %v", err)
			return
		}
	}
}

// steps takes steps until nothing is due soon.
func (w *doorway) steps(ctx context.Context) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.clock.keepUp()
	for {
		if _, err := w.door.Collect(); err != nil {
			return err
		}
		at, ok := w.world.Next()
		if !ok || at > w.clock.Now()+int64(10*time.Millisecond) {
			return nil
		}
		if _, err := w.world.Step(ctx); err != nil {
			return err
		}
	}
}

// pump is the world's end of a connection: it never waits.
type pump struct {
	conn net.Conn
	wake func()

	mu      sync.Mutex
	in      []byte
	ended   bool
	out     chan []byte // to the goroutine that writes; made with the first
	dropped bool
}

// fill takes what the client sends.
func (p *pump) fill() {
	buffer := make([]byte, 64<<10)
	for {
		n, err := p.conn.Read(buffer)
		p.mu.Lock()
		p.in = append(p.in, buffer[:n]...)
		p.ended = p.ended || err != nil
		p.mu.Unlock()
		p.wake()
		if err != nil {
			return
		}
	}
}

// Read implements wire.Stream.
func (p *pump) Read(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case len(p.in) > 0:
		n := copy(b, p.in)
		p.in = p.in[n:]
		return n, nil
	case p.ended:
		return 0, io.EOF
	}
	return 0, wire.ErrWouldBlock
}

// Write implements wire.Stream.
func (p *pump) Write(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.dropped {
		return 0, os.ErrClosed
	}
	if p.out == nil {
		p.out = make(chan []byte, 1024)
		go func() {
			for b := range p.out {
				if _, err := p.conn.Write(b); err != nil {
					break // the client has gone; so does what is left
				}
			}
			_ = p.conn.Close()
		}()
	}
	select {
	case p.out <- append([]byte{}, b...):
		return len(b), nil
	default:
		return 0, wire.ErrWouldBlock
	}
}

// Close implements wire.Stream.
func (p *pump) Close() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.dropped {
		return nil
	}
	p.dropped = true
	if p.out == nil {
		return p.conn.Close()
	}
	close(p.out) // closes the connection behind what has been written
	return nil
}
