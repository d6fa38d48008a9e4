package front

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"
	"golang.org/x/net/http2"

	"github.com/opreplay/opreplay/internal/apicall"
	"github.com/opreplay/opreplay/sim"
	"github.com/opreplay/opreplay/sim/apiserver"
	"github.com/opreplay/opreplay/sim/fault"
	"github.com/opreplay/opreplay/sim/store"
	"github.com/opreplay/opreplay/sim/wire"
	"github.com/opreplay/opreplay/traces"
)

// start is where each scenario's clock begins.
var start = time.Date(2021, 3, 4, 5, 6, 7, 0, time.UTC)

// still stands in for the processes: it has a clock and never does anything by itself.
type still struct{ now int64 }

func (s *still) Run(context.Context) error { return nil }
func (s *still) Now() int64                { return s.now }
func (s *still) NextTimer() (int64, bool)  { return 0, false }
func (s *still) AdvanceTo(at int64)        { s.now = at }

// pipe is a byte stream whose far end is the transcript.
type pipe struct {
	in, out bytes.Buffer
	closed  bool
}

func (p *pipe) Read(b []byte) (int, error) {
	if p.in.Len() > 0 {
		return p.in.Read(b)
	}
	if p.closed {
		return 0, io.EOF
	}
	return 0, wire.ErrWouldBlock
}
func (p *pipe) Write(b []byte) (int, error) { return p.out.Write(b) }
func (p *pipe) Close() error                { p.closed = true; return nil }

// memory takes a trace's rows.
type memory struct {
	rows []traces.Record
}

func (m *memory) Append(r traces.Record) error {
	m.rows = append(m.rows, r)
	r.Header().Seq = int64(len(m.rows))
	return nil
}
func (m *memory) Seq() int64 { return int64(len(m.rows)) }

var (
	clock  = start
	server *apiserver.Server
	empty  *store.Snapshot
)

const crd = `{"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition","metadata":{"name":"gadgets.demo.example.com"},
"spec":{"group":"demo.example.com","scope":"Namespaced","names":{"plural":"gadgets","singular":"gadget","kind":"Gadget","listKind":"GadgetList"},
"versions":[{"name":"v1","served":true,"storage":true,"subresources":{"status":{}},
"schema":{"openAPIV3Schema":{"type":"object","x-kubernetes-preserve-unknown-fields":true}}}]}}`

func TestMain(m *testing.M) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	var err error
	server, err = apiserver.New(ctx, apiserver.Options{Seed: 1, Clock: func() time.Time { return clock }})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	// The transcripts' versions begin here, however many objects a new API server has.
	from := store.WithHint(ctx, store.Hint{ResourceVersion: 98})
	req, _ := http.NewRequestWithContext(from, "POST", "http://w/apis/apiextensions.k8s.io/v1/customresourcedefinitions", strings.NewReader(crd))
	req.Header.Set("Content-Type", "application/json")
	resp, err := server.Outsider(apiserver.Admin).RoundTrip(req) //nolint:bodyclose // a buffer
	if err != nil || resp.StatusCode != http.StatusCreated {
		fmt.Fprintln(os.Stderr, "creating the CRD:", resp, err)
		os.Exit(1)
	}
	if empty = server.Store().Snapshot(); empty.ResourceVersion() != 100 {
		fmt.Fprintln(os.Stderr, "the transcripts' versions begin behind", empty.ResourceVersion())
		os.Exit(1)
	}
	code := m.Run()
	cancel()
	server.Close()
	os.Exit(code)
}

// stage is one scenario.
type stage struct {
	t     *testing.T
	w     *sim.World
	d     *Door
	p     *still
	rows  *memory
	conns map[string]*pipe
	many  map[string]*multiplexed // those of conns that speak HTTP/2
	plan  *fault.Machine
	acts  []string // that the door has asked for since the last step
}

func newStage(t *testing.T, seed uint64, plan string, change ...func(*Options)) *stage {
	t.Helper()
	server.Store().Restore(empty)
	s := &stage{t: t, p: &still{now: start.UnixNano()}, conns: map[string]*pipe{}, many: map[string]*multiplexed{}, rows: &memory{}}
	s.w = sim.New(sim.Options{Seed: seed, Processes: s.p, Before: func(sim.Step) error { clock = s.w.Now(); return nil }})
	clock = start
	p, err := fault.Parse("plan", []byte(plan))
	if err != nil {
		t.Fatal(err)
	}
	s.plan = fault.NewMachine(p, fault.Options{Operator: "op"})
	o := Options{
		World: s.w, Handler: server.Handler(), Faults: s.plan, Store: server.Store(), Act: s.act,
		Tap: apicall.New(s.rows, apicall.Options{Now: s.w.Now, Process: func(r *http.Request) string { return r.Header.Get("X-Remote-User") }}),
	}
	for _, c := range change {
		c(&o)
	}
	s.d = New(o)
	s.w.AddSource(s.d)
	return s
}

// act carries out nothing but the clock's skips.
func (s *stage) act(a fault.Action) error {
	s.acts = append(s.acts, a.String())
	if a.Do == fault.DoSkip {
		s.w.Skip(a.Clock)
	}
	return nil
}

// acted is what the door has asked for since the last time.
func (s *stage) acted() (text string) {
	for _, a := range s.acts {
		text += "  " + a + "\n"
	}
	s.acts = nil
	return text
}

func (s *stage) at(ns int64) string { return time.Duration(ns - start.UnixNano()).String() }

// steps takes steps until nothing is due within ten minutes: the ends of watches lie further off.
func (s *stage) steps(limit int) string {
	return s.stepsUntil(limit, func() int64 { return s.p.now + int64(10*time.Minute) })
}

// stepsUntil takes steps until nothing is due before a time.
func (s *stage) stepsUntil(limit int, until func() int64) string {
	var b strings.Builder
	for n := 0; n != limit; n++ {
		if _, err := s.d.Collect(); err != nil {
			s.t.Fatal(err)
		}
		if at, ok := s.w.Next(); !ok || at > until() {
			break
		}
		step, err := s.w.Step(context.Background())
		if err != nil {
			fmt.Fprintf(&b, "error: %v\n", err)
			break
		}
		fmt.Fprintf(&b, "%s %s %s", s.at(step.At), step.Kind, step.Subject)
		if step.Rule != "" {
			fmt.Fprintf(&b, " [%s]", step.Rule)
		}
		b.WriteString("\n" + s.acted())
	}
	return b.String()
}

// call sends a request on a connection, opening it if need be.
func (s *stage) call(name, method, path, body string) {
	p := s.conns[name]
	if p == nil || p.closed {
		p = &pipe{}
		s.conns[name] = p
		if strings.HasSuffix(name, ".h2") {
			s.many[name] = multiplex(p)
		}
		process, _, _ := strings.Cut(name, ".")
		s.d.Accept(Client{Process: process, User: process, Groups: []string{"system:masters"}}, p, wire.Options{})
	}
	ct := "application/json"
	if method == "PATCH" {
		ct = "application/merge-patch+json"
	}
	if m := s.many[name]; m != nil {
		m.call(name, method, path, ct, body)
		return
	}
	fmt.Fprintf(&p.in, "%s %s HTTP/1.1\r\nHost: w\r\nUser-Agent: %s\r\nContent-Type: %s\r\nContent-Length: %d\r\n\r\n%s", method, path, name, ct, len(body), body)
}

// received says what has come on a connection since the last time.
func (s *stage) received(name string) string {
	p := s.conns[name]
	var b strings.Builder
	if m := s.many[name]; m != nil {
		b.WriteString(m.received(s.t))
		if p.closed {
			b.WriteString("closed\n")
		}
		return b.String()
	}
	raw := p.out.Bytes()
	p.out.Reset()
	if bytes.HasPrefix(raw, []byte("HTTP/1.1")) {
		resp, err := http.ReadResponse(bufio.NewReader(bytes.NewReader(raw)), nil)
		if err != nil {
			return "unreadable: " + err.Error()
		}
		fmt.Fprintf(&b, "%d", resp.StatusCode)
		if ra := resp.Header.Get("Retry-After"); ra != "" {
			fmt.Fprintf(&b, " after %s s", ra)
		}
		body, err := io.ReadAll(resp.Body)
		_ = resp.Body.Close()
		switch {
		case errors.Is(err, io.ErrUnexpectedEOF):
			b.WriteString(" and goes on\n")
			b.WriteString(events(body))
		case resp.Header.Get("Transfer-Encoding") != "" || len(resp.TransferEncoding) > 0:
			b.WriteString(" and ended\n" + events(body))
		default:
			b.WriteString(" " + describe(body) + "\n")
		}
	} else if len(raw) > 0 {
		b.WriteString(events(unchunk(raw)))
	} else {
		b.WriteString("nothing\n")
	}
	if p.closed {
		b.WriteString("closed\n")
	}
	return b.String()
}

func unchunk(raw []byte) []byte {
	r := bufio.NewReader(bytes.NewReader(raw))
	var out []byte
	for {
		var n int
		if _, err := fmt.Fscanf(r, "%x\r\n", &n); err != nil {
			return out
		}
		chunk := make([]byte, n+2)
		if _, err := io.ReadFull(r, chunk); err != nil {
			return out
		}
		out = append(out, chunk[:n]...)
	}
}

func events(body []byte) string {
	var b strings.Builder
	dec := json.NewDecoder(bytes.NewReader(body))
	for {
		var e struct {
			Type   string
			Object json.RawMessage
		}
		if dec.Decode(&e) != nil {
			return b.String()
		}
		fmt.Fprintf(&b, "  %s %s\n", e.Type, describe(e.Object))
	}
}

func describe(body []byte) string {
	var o struct {
		Kind, Reason, Message string
		Metadata              struct{ Name, ResourceVersion string }
		Spec                  map[string]any
		Items                 []any
	}
	if err := json.Unmarshal(body, &o); err != nil {
		return fmt.Sprintf("%q", body)
	}
	if o.Kind == "Status" {
		return strings.TrimSpace(o.Reason + " " + o.Message)
	}
	out := o.Kind
	if o.Metadata.Name != "" {
		out += " " + o.Metadata.Name
	}
	if o.Items != nil {
		out += fmt.Sprintf(" of %d", len(o.Items))
	}
	if len(o.Spec) > 0 {
		spec, _ := json.Marshal(o.Spec)
		out += " " + string(spec)
	}
	return out
}

// The transcripts under testdata speak these commands:
//
//	world [seed=N] [aging]                a new world; the input is its plan; in one that is aging only run until ends
//	call conn=NAME METHOD PATH            a process (NAME up to ".") sends a request; the input is its body; a
//	                                      NAME that ends in ".h2" is a connection that speaks HTTP/2
//	outsider METHOD PATH                  someone who is no process does it, within the step
//	begin                                 the operator, "op", makes its first call
//	hangup conn=NAME                      the client closes the connection
//	reset conn=NAME stream=N              the client resets a stream of HTTP/2
//	run [steps=N] [until=TIME]            step until only the ends of watches are left, or to that time
//	recv conn=NAME                        what has arrived there
//	rows                                  the trace's rows so far, in brief
//	unmatched                             the plan's selectors that met nothing, and the door's notes
func TestTranscripts(t *testing.T) {
	datadriven.Walk(t, "testdata", func(t *testing.T, path string) {
		var s *stage
		defer func() {
			if s != nil {
				s.d.Close()
			}
		}()
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			var name string
			switch d.Cmd {
			case "world":
				if s != nil {
					s.d.Close()
				}
				seed := uint64(1)
				d.MaybeScanArgs(t, "seed", &seed)
				s = newStage(t, seed, d.Input, func(o *Options) { o.Aging = d.HasArg("aging") })
			case "call":
				d.ScanArgs(t, "conn", &name)
				s.call(name, d.CmdArgs[1].Key, d.CmdArgs[2].String(), d.Input)
			case "outsider":
				body := strings.NewReader(d.Input)
				req, err := http.NewRequestWithContext(context.Background(), d.CmdArgs[0].Key, "http://w"+d.CmdArgs[1].String(), body)
				if err != nil {
					t.Fatal(err)
				}
				req.Header.Set("Content-Type", "application/json")
				if req.Method == "PATCH" {
					req.Header.Set("Content-Type", "application/merge-patch+json")
				}
				resp, err := s.d.Outsider("kubectl", "system:masters").RoundTrip(req)
				if err != nil {
					t.Fatal(err)
				}
				b, _ := io.ReadAll(resp.Body)
				return fmt.Sprintf("%d %s\n", resp.StatusCode, describe(b)) + s.acted()
			case "begin":
				s.d.Begin()
			case "hangup":
				d.ScanArgs(t, "conn", &name)
				s.conns[name].closed = true
			case "reset":
				d.ScanArgs(t, "conn", &name)
				var id int
				d.ScanArgs(t, "stream", &id)
				_ = s.many[name].WriteRSTStream(uint32(id), http2.ErrCodeCancel)
			case "run":
				steps := -1
				d.MaybeScanArgs(t, "steps", &steps)
				var until string
				if d.MaybeScanArgs(t, "until", &until) {
					after, err := time.ParseDuration(until)
					if err != nil {
						t.Fatal(err)
					}
					text := s.stepsUntil(steps, func() int64 { return start.UnixNano() + int64(after) })
					s.p.now = max(s.p.now, start.UnixNano()+int64(after))
					clock = s.w.Now()
					return text
				}
				return s.steps(steps)
			case "recv":
				d.ScanArgs(t, "conn", &name)
				return s.received(name)
			case "rows":
				return s.brief()
			case "unmatched":
				var b strings.Builder
				for _, u := range s.plan.Report() {
					b.WriteString(u.String() + "\n")
				}
				for _, n := range s.d.Notes() {
					b.WriteString(n + "\n")
				}
				return b.String()
			default:
				t.Fatalf("unknown command %s", d.Cmd)
			}
			return ""
		})
	})
}

func (s *stage) brief() string {
	var b strings.Builder
	for _, r := range s.rows.rows {
		switch r := r.(type) {
		case *traces.Request:
			fmt.Fprintf(&b, "%d request %s %s %s/%s by %s: %d, known %d, %s to %s\n", r.Seq, r.Verb, r.Resource, r.Namespace, r.Name, r.Process, r.Code, r.StartSeq, s.at(r.Start), s.at(r.TS))
		case *traces.WatchEvent:
			fmt.Fprintf(&b, "%d %s %s/%s to %s at %s\n", r.Seq, r.Type, r.Namespace, r.Name, r.Process, s.at(r.TS))
		}
	}
	return b.String()
}
