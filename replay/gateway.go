package replay

import (
	"context"
	"io"
	"net/http"
	"strconv"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apiserver/pkg/endpoints/request"

	"github.com/opreplay/opreplay/sim/fault"
	"github.com/opreplay/opreplay/sim/store"
)

// gateway is the door through which every call of a run passes: it has the plan's machine say what happens to the
// call, and carries that out on the wall clock. It is the store's Gate too.
type gateway struct {
	next http.Handler
	info request.RequestInfoFactory
	note func(kind, subject, rule string)
	// hints gives the recorded uid and name for what a call of the operator creates.
	hints *hints

	mu       sync.Mutex
	machine  *fault.Machine
	released chan struct{} // closed, and made anew, when a hold ends
	timers   []*time.Timer
	over     bool          // the run is
	arrived  chan struct{} // closed by the operator's first call
	once     sync.Once
}

func newGateway(m *fault.Machine, h *hints, note func(kind, subject, rule string)) *gateway {
	return &gateway{
		info: request.RequestInfoFactory{
			APIPrefixes: sets.NewString("api", "apis"), GrouplessAPIPrefixes: sets.NewString("api"),
		},
		note: note, hints: h, machine: m, released: make(chan struct{}), arrived: make(chan struct{}),
	}
}

type processKey struct{}

// withProcess says which process of the run makes the request; outsiders have none.
func withProcess(ctx context.Context, process string) context.Context {
	return context.WithValue(ctx, processKey{}, process)
}

func processOf(ctx context.Context) string {
	p, _ := ctx.Value(processKey{}).(string)
	return p
}

// ServeHTTP implements http.Handler.
func (g *gateway) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	process := processOf(r.Context())
	if process != "" {
		g.once.Do(g.begin)
	}
	info, err := g.info.NewRequestInfo(r)
	if err != nil || !info.IsResourceRequest {
		g.next.ServeHTTP(w, g.client(r, process))
		return
	}
	call := fault.Call{
		Client: process, Verb: info.Verb, Group: info.APIGroup, Version: info.APIVersion, Resource: info.Resource,
		Namespace: info.Namespace, Name: info.Name, Subresource: info.Subresource,
	}
	if info.APIGroup == "" && info.Resource == "namespaces" {
		call.Namespace = ""
	}
	if call.Verb == "create" && call.Name == "" {
		call.Name = peek(r).Name
	}
	g.mu.Lock()
	v := g.machine.Arrive(call)
	g.mu.Unlock()
	for _, rule := range v.Rules {
		g.note("fault", subject(call), rule)
	}
	g.carryOut(w, g.client(r, process), call, v)
}

func subject(c fault.Call) string {
	s := c.Verb + " " + c.Resource
	if c.Name != "" {
		s += "/" + c.Name
	}
	if c.Subresource != "" {
		s += "/" + c.Subresource
	}
	if c.Namespace != "" {
		s += " -n " + c.Namespace
	}
	return s
}

func (g *gateway) client(r *http.Request, process string) *http.Request {
	if process == "" {
		return r
	}
	return r.WithContext(store.WithClient(r.Context(), store.Client{UserAgent: r.UserAgent(), Process: process}))
}

// carryOut does to a call what the plan says.
func (g *gateway) carryOut(w http.ResponseWriter, r *http.Request, call fault.Call, v fault.Verdict) {
	if v.Delay > 0 && !sleep(r.Context(), v.Delay) {
		g.done(v.Ticket)
		return
	}
	if call.Verb == "watch" && v.Refusal == nil {
		// It has begun, which is all that others can wait for.
		g.done(v.Ticket)
		g.next.ServeHTTP(w, r)
		return
	}
	// The ticket is over before the client knows: the Tap in front holds the answer's end until we return.
	defer g.done(v.Ticket)
	switch {
	case v.Refusal == nil:
		g.execute(w, r, call)
	case v.Refusal.Committed:
		g.execute(&discard{header: http.Header{}, ctx: r.Context()}, r, call)
		fallthrough
	default:
		g.done(v.Ticket)
		if sleep(r.Context(), v.Refusal.Wait) {
			sendRefusal(w, v.Refusal)
		}
	}
}

// execute hands the call to the API server, a create of the operator's with its recorded uid and name.
func (g *gateway) execute(w http.ResponseWriter, r *http.Request, call fault.Call) {
	if call.Client == "" || call.Verb != "create" || call.Subresource != "" || r.URL.Query().Has("dryRun") {
		g.next.ServeHTTP(w, r)
		return
	}
	hint, give := g.hints.take(call, peek(r))
	status := &statusWriter{ResponseWriter: w}
	g.next.ServeHTTP(status, r.WithContext(store.WithHint(r.Context(), hint)))
	give(status.code >= 200 && status.code <= 299)
}

// sendRefusal answers a call as the API server would.
func sendRefusal(w http.ResponseWriter, r *fault.Refusal) {
	if r.Lost() {
		panic(http.ErrAbortHandler) // the HTTP server closes the connection
	}
	code, header, body := r.Answer()
	for k, v := range header {
		w.Header()[k] = v
	}
	w.WriteHeader(code)
	_, _ = w.Write(body) // a client that left needs no answer
}

// begin is told of the operator's first call.
func (g *gateway) begin() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.heed(g.machine.Begin())
	close(g.arrived)
}

// done tells the machine that a call is over, and whoever is held that a hold is.
func (g *gateway) done(t fault.Ticket) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.heed(g.machine.Done(t))
}

// heed does what follows from something that has happened. There are no actions: those need a world. mu is held.
func (g *gateway) heed(fx fault.Effect) {
	for _, deadline := range fx.Begun {
		g.timers = append(g.timers, time.AfterFunc(deadline.After, func() {
			g.mu.Lock()
			defer g.mu.Unlock()
			if !g.over {
				g.heed(g.machine.Expire(deadline))
			}
		}))
	}
	if fx.Released {
		g.release()
	}
}

// release wakes all held streams; they ask again. mu is held.
func (g *gateway) release() {
	close(g.released)
	g.released = make(chan struct{})
}

// Deliver implements store.Gate.
func (g *gateway) Deliver(ctx context.Context, w store.WatchInfo, ev store.Event) error {
	if w.Client.Process == "" {
		return nil
	}
	e := fault.Event{
		Client: w.Client.Process, Stream: strconv.FormatUint(w.ID, 10), Type: string(ev.Type),
		Group: w.Resource.Group, Resource: w.Resource.Resource, Namespace: ev.Namespace, Name: ev.Name,
		ResourceVersion: int64(ev.ResourceVersion),
	}
	if ev.Initial {
		e.Type = "INITIAL" // an item of a list: it waits with its stream, and no selector means it
	}
	for first := true; ; first = false {
		d, released := g.ask(e)
		if first {
			for _, rule := range d.Rules {
				g.note("fault", e.Type+" "+e.Resource+"/"+e.Name, rule)
			}
		}
		if d.Delay > 0 && !sleep(ctx, d.Delay) {
			return ctx.Err()
		}
		if !d.Held {
			return nil
		}
		select {
		case <-released:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// ask asks the machine, and gives the channel that is closed when asking again may help.
func (g *gateway) ask(e fault.Event) (fault.Delivery, <-chan struct{}) {
	g.mu.Lock()
	defer g.mu.Unlock()
	d := g.machine.Deliver(e)
	g.heed(d.Effect)
	return d, g.released
}

// outcomes are what became of the plan's faults. It stops the timers.
func (g *gateway) outcomes(p *fault.Plan) []FaultOutcome {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.over = true
	for _, t := range g.timers {
		t.Stop()
	}
	return outcomes(p, g.machine)
}

// sleep waits; false when ctx ended first.
func sleep(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// statusWriter remembers the status code.
type statusWriter struct {
	http.ResponseWriter
	code int
}

func (w *statusWriter) WriteHeader(code int) {
	if w.code == 0 {
		w.code = code
	}
	w.ResponseWriter.WriteHeader(code)
}

func (w *statusWriter) Write(p []byte) (int, error) {
	if w.code == 0 {
		w.code = http.StatusOK
	}
	return w.ResponseWriter.Write(p)
}

// Flush implements http.Flusher, CloseNotify http.CloseNotifier: the API server asks for both.
func (w *statusWriter) Flush() { _ = http.NewResponseController(w.ResponseWriter).Flush() }

func (w *statusWriter) CloseNotify() <-chan bool {
	if n, ok := w.ResponseWriter.(http.CloseNotifier); ok { //nolint:staticcheck // see internal/apicall
		return n.CloseNotify()
	}
	return make(chan bool)
}

// discard is an answer that nobody gets.
type discard struct {
	header http.Header
	ctx    context.Context
	into   io.Writer // nil: nowhere
	code   int
}

func (d *discard) Header() http.Header { return d.header }
func (d *discard) WriteHeader(code int) {
	if d.code == 0 {
		d.code = code
	}
}

func (d *discard) Write(p []byte) (int, error) {
	d.WriteHeader(http.StatusOK)
	if d.into == nil {
		return len(p), nil
	}
	return d.into.Write(p)
}

func (d *discard) Flush() {}

func (d *discard) CloseNotify() <-chan bool {
	gone := make(chan bool, 1)
	context.AfterFunc(d.ctx, func() { gone <- true })
	return gone
}
