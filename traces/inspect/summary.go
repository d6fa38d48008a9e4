package inspect

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/opreplay/opreplay/traces"
)

// Summary is what a trace holds, in numbers.
type Summary struct {
	Trace      string            `json:"trace"` // the folder
	Format     traces.Format     `json:"format"`
	Tool       string            `json:"tool"`
	Source     string            `json:"source"`
	Created    time.Time         `json:"created"`
	Cluster    traces.Cluster    `json:"cluster"`
	Namespaces []string          `json:"namespaces,omitempty"` // empty: all
	Operators  []traces.Operator `json:"operators,omitempty"`
	Run        *traces.Run       `json:"run,omitempty"` // of a simulated run
	Redaction  traces.Redaction  `json:"redaction"`
	Complete   bool              `json:"complete"`
	Losses     []traces.Loss     `json:"losses,omitempty"`

	// First and Last are the times of the first and the last row; zero when there is none.
	First   time.Time `json:"first"`
	Last    time.Time `json:"last"`
	Seconds float64   `json:"seconds"` // between them

	Rows   int64   `json:"rows"`
	Bytes  int64   `json:"bytes"` // of the Parquet files
	Tables []Table `json:"tables"`

	// Objects are the distinct objects (by uid) that watch rows speak of.
	Objects   int        `json:"objects"`
	Streams   int        `json:"streams"` // watches and lists
	Events    []Count    `json:"events"`  // watch rows by type
	Resources []Resource `json:"resources"`
	Callers   []Caller   `json:"callers"`
	Codes     []Code     `json:"codes"`
	Timeline  Timeline   `json:"timeline"`
}

// Table is the size of one table.
type Table struct {
	Table       traces.Table `json:"table"`
	Files       int          `json:"files"`
	Rows        int64        `json:"rows"`
	Bytes       int64        `json:"bytes"`
	BytesPerRow float64      `json:"bytesPerRow"`
}

// Count is how often something occurred.
type Count struct {
	Name  string `json:"name"`
	Count int64  `json:"count"`
}

// Code is how many calls had an HTTP status; 0 stands for calls that were given up before an answer.
type Code struct {
	Code  int32 `json:"code"`
	Count int64 `json:"count"`
}

// Resource is what happened to the objects of one resource.
type Resource struct {
	Resource string `json:"resource"` // RESOURCE or RESOURCE.GROUP, as kubectl has it
	Objects  int    `json:"objects"`  // distinct, by uid
	Events   int64  `json:"events"`   // watch rows
	Added    int64  `json:"added"`
	Modified int64  `json:"modified"`
	Deleted  int64  `json:"deleted"`
	Sync     int64  `json:"sync"` // items of lists
	Reads    int64  `json:"reads"`
	Writes   int64  `json:"writes"`
}

// activity is by what resources are ranked: what only stood in lists comes last, however much it is.
func (r *Resource) activity() int64 { return r.Added + r.Modified + r.Deleted + r.Writes }

// Caller is one client of the API server: a process, or an outsider by its user agent and user.
type Caller struct {
	Process   string `json:"process"` // "" for an outsider
	UserAgent string `json:"userAgent"`
	User      string `json:"user"`
	Reads     int64  `json:"reads"`
	Writes    int64  `json:"writes"`
	Failed    int64  `json:"failed"` // of both: codes of 400 and above, and calls given up
	// WritesPerMinute is over the whole span of the trace.
	WritesPerMinute float64 `json:"writesPerMinute"`
}

// Timeline is the trace's span in equal steps.
type Timeline struct {
	StepSeconds float64 `json:"stepSeconds"`
	Events      []int64 `json:"events"` // ADDED, MODIFIED and DELETED watch rows in each step
	Writes      []int64 `json:"writes"` // calls that write
}

// steps of a timeline: a line on a terminal.
const steps = 60

// Summarize reads the trace once, a few columns of it.
func Summarize(ctx context.Context, t *traces.Trace) (*Summary, error) {
	m := t.Manifest()
	s := &Summary{
		Trace: t.Dir(), Format: m.Format, Tool: m.Tool, Source: m.Source, Created: m.Created, Cluster: m.Cluster,
		Namespaces: m.Namespaces, Operators: m.Operators, Run: m.Run, Redaction: m.Redaction, Complete: m.Complete, Losses: m.Losses,
	}
	s.sizes(m)
	c := newCounter(s)
	if err := c.watch(ctx, t); err != nil {
		return nil, err
	}
	if err := c.requests(ctx, t); err != nil {
		return nil, err
	}
	c.finish()
	return s, nil
}

// sizes takes from the manifest what it knows: no row needs to be read for it.
func (s *Summary) sizes(m *traces.Manifest) {
	byTable := map[traces.Table]*Table{}
	var order []*Table
	var first, last int64
	for _, f := range m.Files {
		t := byTable[f.Table]
		if t == nil {
			t = &Table{Table: f.Table}
			byTable[f.Table] = t
			order = append(order, t)
		}
		t.Files++
		t.Rows += f.Rows
		t.Bytes += f.Bytes
		if f.Rows == 0 {
			continue
		}
		if s.Rows == 0 {
			first, last = f.FirstTS, f.LastTS
		}
		first, last = min(first, f.FirstTS), max(last, f.LastTS)
		s.Rows += f.Rows
	}
	s.Tables = []Table{}
	for _, t := range order {
		if t.Rows > 0 {
			t.BytesPerRow = float64(t.Bytes) / float64(t.Rows)
		}
		s.Bytes += t.Bytes
		s.Tables = append(s.Tables, *t)
	}
	if s.Rows > 0 {
		s.First, s.Last = time.Unix(0, first).UTC(), time.Unix(0, last).UTC()
		s.Seconds = s.Last.Sub(s.First).Seconds()
	}
}

// counter counts rows into a Summary.
type counter struct {
	s         *Summary
	types     map[string]int64
	objects   map[string]bool // by uid
	streams   map[string]bool
	resources map[groupResource]*Resource
	callers   map[caller]*Caller
	codes     map[int32]int64
}

type groupResource struct{ group, resource string }

func (g groupResource) String() string {
	if g.group == "" {
		return g.resource
	}
	return g.resource + "." + g.group
}

type caller struct{ process, userAgent, user string }

func newCounter(s *Summary) *counter {
	s.Timeline = Timeline{StepSeconds: s.Seconds / steps, Events: make([]int64, steps), Writes: make([]int64, steps)}
	return &counter{
		s: s, types: map[string]int64{}, objects: map[string]bool{}, streams: map[string]bool{},
		resources: map[groupResource]*Resource{}, callers: map[caller]*Caller{}, codes: map[int32]int64{},
	}
}

func (c *counter) resource(id *traces.Identity) *Resource {
	key := groupResource{id.Group, id.Resource}
	r := c.resources[key]
	if r == nil {
		r = &Resource{Resource: key.String()}
		c.resources[key] = r
	}
	return r
}

// step is where in the timeline a row lies.
func (c *counter) step(ts int64) int {
	if c.s.Seconds == 0 {
		return 0
	}
	at := float64(ts-c.s.First.UnixNano()) / 1e9 / c.s.Seconds
	return max(0, min(steps-1, int(at*steps)))
}

func (c *counter) watch(ctx context.Context, t *traces.Trace) error {
	columns := []string{"group", "resource", "uid", "stream", "type"}
	for e, err := range traces.Rows[traces.WatchEvent](ctx, t, traces.Range{Columns: columns}) {
		if err != nil {
			return err
		}
		c.types[e.Type]++
		c.streams[e.Stream] = true
		r := c.resource(&e.Identity)
		r.Events++
		if e.UID != "" && !c.objects[e.UID] {
			c.objects[e.UID] = true
			r.Objects++
		}
		switch traces.EventType(e.Type) {
		case traces.Added:
			r.Added++
		case traces.Modified:
			r.Modified++
		case traces.Deleted:
			r.Deleted++
		case traces.Sync:
			r.Sync++
			continue
		default:
			continue
		}
		c.s.Timeline.Events[c.step(e.TS)]++
	}
	return nil
}

// isWrite says whether a verb changes objects.
func isWrite(verb string) bool {
	switch verb {
	case "create", "update", "patch", "delete", "deletecollection":
		return true
	}
	return false
}

func (c *counter) requests(ctx context.Context, t *traces.Trace) error {
	columns := []string{"group", "resource", "process", "user", "user_agent", "verb", "code"}
	for q, err := range traces.Rows[traces.Request](ctx, t, traces.Range{Columns: columns}) {
		if err != nil {
			return err
		}
		c.codes[q.Code]++
		key := caller{q.Process, q.UserAgent, q.User}
		who := c.callers[key]
		if who == nil {
			who = &Caller{Process: q.Process, UserAgent: q.UserAgent, User: q.User}
			c.callers[key] = who
		}
		if q.Code == 0 || q.Code >= 400 {
			who.Failed++
		}
		if isWrite(q.Verb) {
			who.Writes++
			c.s.Timeline.Writes[c.step(q.TS)]++
		} else {
			who.Reads++
		}
		if q.Resource == "" {
			continue
		}
		if r := c.resource(&q.Identity); isWrite(q.Verb) {
			r.Writes++
		} else {
			r.Reads++
		}
	}
	return nil
}

// finish puts the counts into the summary, the greatest first.
func (c *counter) finish() {
	s := c.s
	s.Objects, s.Streams = len(c.objects), len(c.streams)
	s.Events, s.Resources, s.Callers, s.Codes = []Count{}, []Resource{}, []Caller{}, []Code{}
	for name, n := range c.types {
		s.Events = append(s.Events, Count{name, n})
	}
	slices.SortFunc(s.Events, func(a, b Count) int { return cmp.Or(cmp.Compare(b.Count, a.Count), cmp.Compare(a.Name, b.Name)) })
	for _, r := range c.resources {
		s.Resources = append(s.Resources, *r)
	}
	slices.SortFunc(s.Resources, func(a, b Resource) int {
		return cmp.Or(cmp.Compare(b.activity(), a.activity()), cmp.Compare(b.Events, a.Events), cmp.Compare(b.Reads, a.Reads),
			cmp.Compare(a.Resource, b.Resource))
	})
	for _, w := range c.callers {
		if s.Seconds > 0 {
			w.WritesPerMinute = float64(w.Writes) / s.Seconds * 60
		}
		s.Callers = append(s.Callers, *w)
	}
	slices.SortFunc(s.Callers, func(a, b Caller) int {
		return cmp.Or(cmp.Compare(b.Writes, a.Writes), cmp.Compare(b.Reads, a.Reads),
			cmp.Compare(a.Process, b.Process), cmp.Compare(a.UserAgent, b.UserAgent), cmp.Compare(a.User, b.User))
	})
	for code, n := range c.codes {
		s.Codes = append(s.Codes, Code{code, n})
	}
	slices.SortFunc(s.Codes, func(a, b Code) int { return cmp.Compare(a.Code, b.Code) })
}
