package analysis

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/opreplay/opreplay/traces"
)

// HotStack finds code that never rests: one place that takes most of a processor, second after second, and threads that
// read from the kernel over and over on one stack.
//
// Samples of one second are put together by place: the function of the operator's own that is nearest the leaf, so that
// a loop that spends its time in fmt and json is one place and not fifty stacks; where no function is its own, by the
// root (garbage collection, a library's goroutine).
type HotStack struct {
	// MinShare is the share of one processor that the place must take.
	MinShare float64
	// Hold is for how many nanoseconds it must take that much, with at most one second in ten below: a reconcile that
	// computes for a few seconds after a change has a reason.
	Hold int64
	// Hz is how often a processor is sampled in a second, oprec's default. It is corrected when one thread is seen
	// more often than that.
	Hz int64
	// MinReads is how many reads a second on one stack are a loop: a log that is followed makes a hundred.
	MinReads int64

	pids  map[int32]*burner
	reads map[readKey]*hotRead
	hz    int64
	key   map[int64]string // stack_id to place
}

// NewHotStack is a HotStack with its thresholds set.
func NewHotStack() *HotStack {
	return &HotStack{MinShare: 0.5, Hold: 10e9, Hz: 99, MinReads: 1000, pids: map[int32]*burner{}, reads: map[readKey]*hotRead{}, key: map[int64]string{}}
}

// Name implements Detector.
func (*HotStack) Name() string { return "hot-stack" }

// maxPlaces bounds the places of one process that are followed, maxPIDs the processes.
const (
	maxPlaces = 1 << 10
	maxPIDs   = 1 << 8
)

// burner is one process by its samples.
type burner struct {
	pid    int32
	second int64 // since the epoch
	spots  map[string]*hotSpot
	stacks map[int64]*hotSpot // the same by stack
	// threads are the weights of this second.
	threads map[int32]int64
}

// hotSpot is one place in one process.
type hotSpot struct {
	place      string
	stack      int64
	from, last int64 // the second in which it became hot, and the last in which it was
	hot, cold  int64 // seconds since then
	weight     int64
	now        int64           // weight of this second
	passes     map[int64]int64 // weight by reconcile_id; bounded
	longest    *hotSpot        // a copy of its longest run
	places     places
	lastSeq    int64
}

// Sample implements SampleDetector.
func (d *HotStack) Sample(m *Model, s *traces.Sample) {
	b := d.pids[s.PID]
	if b == nil {
		if len(d.pids) >= maxPIDs {
			return
		}
		b = &burner{pid: s.PID, spots: map[string]*hotSpot{}, stacks: map[int64]*hotSpot{}, threads: map[int32]int64{}}
		d.pids[s.PID] = b
	}
	if second := s.TS / 1e9; second > b.second {
		d.turn(b, second)
	}
	weight := max(s.Weight, 1)
	if b.threads[s.TID] += weight; b.threads[s.TID] > d.hz {
		d.hz = b.threads[s.TID]
	}
	spot := b.stacks[s.StackID]
	if spot == nil {
		if spot = b.spot(d.place(m, s.StackID)); spot == nil {
			return
		}
		if len(m.Stack(s.StackID)) > 0 { // else the stack may yet come, with another place
			b.stacks[s.StackID] = spot
		}
	}
	spot.stack, spot.lastSeq = cmp.Or(s.StackID, spot.stack), s.Seq
	if spot.now += weight; s.ReconcileID != 0 {
		if spot.passes == nil {
			spot.passes = map[int64]int64{}
		}
		if len(spot.passes) < maxPlaces {
			spot.passes[s.ReconcileID] += weight
		}
	}
}

// spot is the one of that place, nil where it is one too many.
func (b *burner) spot(place string) *hotSpot {
	spot := b.spots[place]
	if spot == nil && len(b.spots) < maxPlaces {
		spot = &hotSpot{place: place}
		b.spots[place] = spot
	}
	return spot
}

// turn judges the second that is over.
func (d *HotStack) turn(b *burner, second int64) {
	need := int64(d.MinShare * float64(max(d.Hz, d.hz)))
	for _, spot := range b.spots {
		w := spot.now
		spot.now = 0
		gap := second - b.second - 1 // seconds in which nothing ran at all
		switch {
		case w >= need:
			if spot.hot == 0 {
				spot.from, spot.weight, spot.cold, spot.places = b.second, 0, 0, places{}
			}
			spot.hot++
			spot.weight += w
			spot.last = b.second
			spot.places.add(spot.lastSeq, b.second*1e9, "%d samples in this second", w, 0)
			spot.cold += gap
		case spot.hot > 0:
			spot.cold += gap + 1
		}
		if spot.hot > 0 && spot.cold*10 > spot.hot+10 {
			spot.end()
		}
	}
	for place, spot := range b.spots { // what has never been hot need not be kept
		if spot.hot == 0 && spot.longest == nil {
			delete(b.spots, place)
		}
	}
	for stack, spot := range b.stacks {
		if b.spots[spot.place] != spot {
			delete(b.stacks, stack)
		}
	}
	b.second = second
	clear(b.threads)
}

// end closes a run, and keeps it if it was the longest.
func (s *hotSpot) end() {
	if s.longest == nil || s.hot > s.longest.hot {
		kept := *s
		kept.longest = nil
		s.longest = &kept
	}
	s.hot, s.cold = 0, 0
}

// place is the function and line that a stack is counted under.
func (d *HotStack) place(m *Model, stack int64) string {
	if p, known := d.key[stack]; known {
		return p
	}
	frames := m.Stack(stack)
	if frames == nil {
		return fmt.Sprintf("stack %d", stack)
	}
	p := "an unknown place"
	if len(frames) > 0 {
		p = frames[len(frames)-1].Function
	}
	for i := range frames {
		if own(frames[i].Function) {
			p = frames[i].Function
			break
		}
	}
	if len(d.key) < maxStacks {
		d.key[stack] = p
	}
	return p
}

// readKey is one stack of one process that reads.
type readKey struct {
	pid   int32
	stack int64
}

// hotRead is a kernel read loop.
type hotRead struct {
	key         readKey
	fd          int32
	n           int64
	first, last int64
	places      places
}

// Kernel implements KernelDetector.
func (d *HotStack) Kernel(_ *Model, e *traces.KernelEvent) {
	if e.Kind != "read_loop" {
		return
	}
	k := readKey{e.PID, e.StackID}
	r := d.reads[k]
	if r == nil {
		if len(d.reads) >= maxPlaces {
			return
		}
		r = &hotRead{key: k, fd: e.FD, first: e.TS}
		d.reads[k] = r
	}
	r.n += max(e.Count, 1)
	r.last = e.TS
	r.places.add(e.Seq, e.TS, "%d reads", max(e.Count, 1), 0)
}

// Findings implements Detector: one for each process and place.
func (d *HotStack) Findings(m *Model) ([]Finding, []Note) {
	var out []Finding
	pids := make([]int32, 0, len(d.pids))
	for pid := range d.pids {
		pids = append(pids, pid)
	}
	slices.Sort(pids)
	for _, pid := range pids {
		b := d.pids[pid]
		d.turn(b, b.second+1)
		for _, place := range sortedKeys(b.spots) {
			spot := b.spots[place]
			spot.end()
			if run := spot.longest; run != nil && (run.last-run.from+1)*1e9 >= d.Hold {
				out = append(out, d.finding(m, b, run))
			}
		}
	}
	return append(out, d.readLoops(m)...), nil
}

func (d *HotStack) finding(m *Model, b *burner, s *hotSpot) Finding {
	lasted := s.last - s.from + 1
	share := float64(s.weight) / float64(lasted) / float64(max(d.Hz, d.hz))
	f := Finding{
		Severity: Warning, Certainty: Sure, Process: processOf(m, b.pid), Stack: s.stack, Evidence: s.places.evidence(),
		First: at(s.from * 1e9), Last: at((s.last + 1) * 1e9), told: s.from*1e9 + d.Hold, Objects: []Object{},
		Statistics: []Statistic{{Name: "share of a processor", Value: share, Unit: "share", Low: share, High: share, N: s.weight, Method: "samples over samples that a processor that never rests would have given"}},
		Effect:     Effect{Value: share * float64(lasted), Unit: "s of processor time", Weight: float64(lasted) * 1e9 / float64(d.Hold)},
	}
	where := s.place
	if line := lineOf(m.Stack(s.stack), s.place); line != "" {
		where += " (" + line + ")"
	}
	f.What = fmt.Sprintf("%s takes %.0f %% of a processor at %s, for %s", nameOf(f.Process, b.pid), share*100, where, seconds(lasted*1e9))
	f.Cause = "the same place was on the processor in sample after sample: a loop without a pause, or work that grows with each pass"
	if n := len(s.passes); n > 0 {
		f.Cause += fmt.Sprintf("; it ran in %s", plural(int64(n), "reconcile", "reconciles"))
	}
	return f
}

func (d *HotStack) readLoops(m *Model) []Finding {
	var loops []*hotRead
	for _, r := range d.reads {
		lasted := r.last - r.first
		if lasted >= d.Hold && float64(r.n)/(float64(lasted)/1e9) >= float64(d.MinReads) {
			loops = append(loops, r)
		}
	}
	slices.SortFunc(loops, func(a, b *hotRead) int {
		return cmp.Or(cmp.Compare(a.key.pid, b.key.pid), cmp.Compare(a.key.stack, b.key.stack))
	})
	var out []Finding
	for _, r := range loops {
		f := Finding{
			Severity: Warning, Certainty: Sure, Process: processOf(m, r.key.pid), Stack: r.key.stack, Evidence: r.places.evidence(),
			First: at(r.first), Last: at(r.last), told: r.first + d.Hold, Objects: []Object{},
			Statistics: []Statistic{rate("reads", r.n, float64(r.last-r.first)/1e9)},
		}
		f.Effect = Effect{Value: f.Statistics[0].Value, Unit: "reads/s", Weight: f.Statistics[0].Value / float64(d.MinReads)}
		where := "one stack"
		for _, frame := range m.Stack(r.key.stack) {
			if own(frame.Function) {
				where = fmt.Sprintf("%s (%s)", frame.Function, fileLine(frame))
				break
			}
		}
		f.What = fmt.Sprintf("%s reads file descriptor %d %.0f times a second on %s, for %s", nameOf(f.Process, r.key.pid), r.fd, f.Effect.Value, where, seconds(r.last-r.first))
		f.Cause = "it reads again at once when a read gives nothing, rather than wait for data"
		out = append(out, f)
	}
	return out
}

// lineOf is where the function stands in the stack, "" when it does not.
func lineOf(frames []traces.Frame, function string) string {
	for _, f := range frames {
		if f.Function == function && f.File != "" {
			return fileLine(f)
		}
	}
	return ""
}

func fileLine(f traces.Frame) string {
	return fmt.Sprintf("%s:%d", f.File[strings.LastIndexByte(f.File, '/')+1:], f.Line)
}

// processOf is the recorded process of samples, which carry a pid only: known when there is one.
func processOf(m *Model, _ int32) string {
	if len(m.Manifest.Operators) == 1 {
		return m.Manifest.Operators[0].Process
	}
	if p := m.Processes(); len(p) == 1 {
		return p[0].Name
	}
	return ""
}

func nameOf(process string, pid int32) string {
	if process != "" {
		return process
	}
	return fmt.Sprintf("process %d", pid)
}
