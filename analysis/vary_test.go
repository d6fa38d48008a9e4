package analysis

import (
	"cmp"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"

	"github.com/opreplay/opreplay/traces"
)

// vary makes another trace of the same story: what a cluster with another history, other loads and other controllers
// might have recorded of it. The seed decides everything.
//
//   - resourceVersions are others, further apart, and so are the times between rows: each gap is stretched or shrunk;
//   - rows that stand side by side change places where nothing says which was first: a client's events of one stream
//     keep their order, a call stays behind all that its client had been told when it asked, and a delivery never comes
//     before the row that its own version's order depends on;
//   - other controllers work beside it, well: one that is recorded too, users, and kubelets whose Events and Leases go by.
func vary(rows []traces.Record, seed uint64) []traces.Record {
	r := rand.New(rand.NewPCG(seed, 0x9e3779b97f4a7c15))
	v := &variant{r: r, seqs: map[int64]int64{}}
	out := make([]traces.Record, 0, len(rows))
	for _, row := range rows {
		out = append(out, copyOf(row))
	}
	v.versions(out)
	v.times(out)
	v.swaps(out)
	out = v.noise(out)
	v.renumber(out)
	return out
}

type variant struct {
	r       *rand.Rand
	rvs     map[int64]int64
	highest int64
	seqs    map[int64]int64 // old to new
}

// copyOf is a row that can be changed. Head, and what refers to other rows, are the row's own.
func copyOf(row traces.Record) traces.Record {
	switch x := row.(type) {
	case *traces.WatchEvent:
		c := *x
		return &c
	case *traces.Request:
		c := *x
		return &c
	case *traces.Reconcile:
		c := *x
		return &c
	case *traces.Sample:
		c := *x
		return &c
	case *traces.Log:
		c := *x
		return &c
	case *traces.Stack:
		c := *x
		return &c
	case *traces.KernelEvent:
		c := *x
		return &c
	case *traces.Metric:
		c := *x
		return &c
	case *traces.Decision:
		c := *x
		return &c
	}
	panic(fmt.Sprintf("vary: a row of %T", row))
}

const inBody = `"resourceVersion":"`

// eachVersion rewrites the resourceVersions that a JSON text has, as servers write them.
func eachVersion(text string, change func(int64) int64) string {
	if !strings.Contains(text, inBody) {
		return text
	}
	var b strings.Builder
	for {
		before, rest, found := strings.Cut(text, inBody)
		b.WriteString(before)
		if !found {
			return b.String()
		}
		number, _, _ := strings.Cut(rest, `"`)
		b.WriteString(inBody)
		if n, err := strconv.ParseInt(number, 10, 64); err == nil {
			b.WriteString(strconv.FormatInt(change(n), 10))
		} else {
			b.WriteString(number)
		}
		text = rest[len(number):]
	}
}

// versions gives every resourceVersion another number, in the same order, with room between for others' writes.
func (v *variant) versions(rows []traces.Record) {
	seen := map[int64]bool{}
	body := func(text string) {
		eachVersion(text, func(n int64) int64 { seen[n] = true; return n })
	}
	for _, row := range rows {
		switch x := row.(type) {
		case *traces.WatchEvent:
			seen[x.ResourceVersion] = true
			body(x.Object)
		case *traces.Request:
			seen[x.ResourceVersion] = true
			body(x.RequestBody)
			body(x.ResponseBody)
		}
	}
	delete(seen, 0)
	v.rvs = map[int64]int64{0: 0}
	next := 5000 + v.r.Int64N(100_000)
	for _, old := range slices.Sorted(maps.Keys(seen)) {
		v.rvs[old] = next
		next += 2 + v.r.Int64N(6)
	}
	v.highest = next
	change := func(text string) string { return eachVersion(text, func(n int64) int64 { return v.rvs[n] }) }
	for _, row := range rows {
		switch x := row.(type) {
		case *traces.WatchEvent:
			x.ResourceVersion, x.Object = v.rvs[x.ResourceVersion], change(x.Object)
		case *traces.Request:
			x.ResourceVersion, x.RequestBody, x.ResponseBody = v.rvs[x.ResourceVersion], change(x.RequestBody), change(x.ResponseBody)
		}
	}
}

// times stretches and shrinks the gaps between rows, those of a second or two too. Longer ones, which are timers, hardly.
func (v *variant) times(rows []traces.Record) {
	type clock struct{ old, fresh int64 }
	clocks := make([]clock, 0, len(rows))
	var last, now int64
	for i, row := range rows {
		ts := row.Header().TS
		if i == 0 {
			last, now = ts, ts
		}
		if gap := ts - last; gap > 0 {
			factor := 0.5 + 1.3*v.r.Float64()
			if gap > 2e9 {
				factor = 0.95 + 0.25*v.r.Float64()
			}
			now += int64(float64(gap) * factor)
			last = ts
		}
		clocks = append(clocks, clock{last, now})
	}
	at := func(old int64) int64 { // between two rows in proportion
		i, found := slices.BinarySearchFunc(clocks, old, func(c clock, t int64) int { return cmp.Compare(c.old, t) })
		switch {
		case found:
			return clocks[i].fresh
		case i == 0:
			return clocks[0].fresh + old - clocks[0].old
		case i == len(clocks):
			return clocks[i-1].fresh + old - clocks[i-1].old
		}
		a, b := clocks[i-1], clocks[i]
		return a.fresh + int64(float64(old-a.old)/float64(b.old-a.old)*float64(b.fresh-a.fresh))
	}
	for i, row := range rows {
		h := row.Header()
		switch x := row.(type) {
		case *traces.Request:
			x.Start = at(x.Start)
		case *traces.Reconcile:
			x.Start = at(x.Start)
		}
		h.TS = clocks[i].fresh
	}
}

// swaps lets rows that stand side by side change places where either order may be.
func (v *variant) swaps(rows []traces.Record) {
	for i := 0; i+1 < len(rows); i++ {
		if v.r.IntN(2) != 0 || !independent(rows[i], rows[i+1]) {
			continue
		}
		a, b := rows[i].Header(), rows[i+1].Header()
		a.TS, b.TS = b.TS, a.TS
		rows[i], rows[i+1] = rows[i+1], rows[i]
		i++
	}
}

// independent is whether b may come before a. Only events and answers are moved: they travel on different connections.
func independent(a, b traces.Record) bool {
	switch x := a.(type) {
	case *traces.WatchEvent:
		switch y := b.(type) {
		case *traces.WatchEvent:
			return x.Stream != y.Stream && x.Process != y.Process && x.ResourceVersion == y.ResourceVersion
		case *traces.Request: // the answer overtakes the event of what it did, which nobody who called could know
			return y.StartSeq < x.Seq && y.UID == x.UID && y.ResourceVersion == x.ResourceVersion && y.Verb != "get" && y.Verb != "list"
		}
	case *traces.Request:
		y, ok := b.(*traces.WatchEvent)
		return ok && x.UID == y.UID && x.ResourceVersion == y.ResourceVersion && x.Verb != "get" && x.Verb != "list" && x.Verb != "watch"
	}
	return false
}

// noise works beside the story in every fifth of a second or so of it.
func (v *variant) noise(rows []traces.Record) []traces.Record {
	if len(rows) == 0 {
		return rows
	}
	from, to := rows[0].Header().TS, rows[len(rows)-1].Header().TS
	n := &neighbours{v: v, free: v.gaps(rows)}
	step := max((to-from)/150, 200_000_000)
	out := make([]traces.Record, 0, len(rows)+600)
	next := from + v.r.Int64N(step)
	for _, row := range rows {
		for row.Header().TS > next {
			out = append(out, n.act(next, row.Header().Seq-1)...)
			next += step/2 + v.r.Int64N(step)
		}
		out = append(out, row)
	}
	return out
}

// gap is a range of resourceVersions that nobody has, behind the row of a seq.
type gap struct{ seq, low, high int64 }

// gaps are the free resourceVersions in the order in which they may be given: what is written at a time has a number
// above all that was shown before.
func (v *variant) gaps(rows []traces.Record) []gap {
	var out []gap
	top := int64(0)
	used := slices.Sorted(maps.Values(v.rvs))
	for _, row := range rows {
		rv := int64(0)
		switch x := row.(type) {
		case *traces.WatchEvent:
			rv = x.ResourceVersion
		case *traces.Request:
			rv = x.ResourceVersion
		}
		if rv > top {
			top = rv
			i, _ := slices.BinarySearch(used, rv)
			high := rv + 1000
			if i+1 < len(used) {
				high = used[i+1]
			}
			out = append(out, gap{row.Header().Seq, rv + 1, high})
		}
	}
	return out
}

// neighbours are other controllers on the cluster, none of which has a fault.
type neighbours struct {
	v     *variant
	free  []gap
	tasks [6]struct {
		generation, rv int64
		uid            string
	}
	made int
}

// take is so many resourceVersions, for writes after the row of that seq; nil when there are no more to be had.
func (n *neighbours) take(count, seq int64) (rvs []int64) {
	i := len(n.free) - 1
	for i >= 0 && n.free[i].seq > seq {
		i--
	}
	if i < 0 || n.free[i].low+count > n.free[i].high {
		return nil
	}
	for range count {
		rvs = append(rvs, n.free[i].low)
		n.free[i].low++
	}
	return rvs
}

const neighbour = "neighbour"

// act is a moment of somebody else's work: a user changes a Task and its operator answers once, a node renews its
// Lease, a kubelet reports.
func (n *neighbours) act(ts, seq int64) (rows []traces.Record) {
	who := n.v.r.IntN(4)
	task := n.v.r.IntN(len(n.tasks))
	t := &n.tasks[task]
	show := func(id traces.Identity, kind traces.EventType, body string, to ...string) {
		for _, process := range to {
			rows = append(rows, &traces.WatchEvent{
				Head: traces.Head{TS: ts}, Identity: id, Stream: process + "/" + id.Resource, Process: process, Type: string(kind), Object: body, ObjectHash: "noise",
			})
		}
	}
	if who > 1 {
		rvs := n.take(1, seq)
		if rvs == nil {
			return nil
		}
		rv := rvs[0]
		id := traces.Identity{Group: "coordination.k8s.io", Version: "v1", Resource: "leases", Namespace: "kube-node-lease", Name: "node-a", UID: "uid-lease", ResourceVersion: rv}
		show(id, traces.Modified, fmt.Sprintf(`{"metadata":{"name":"node-a","resourceVersion":"%d"},"spec":{"renewTime":"%d"}}`, rv, ts), "oprec")
		return rows
	}
	rvs := n.take(2, seq) // the user's change, and the answer
	if rvs == nil {
		return nil
	}
	rv, answer := rvs[0], rvs[1]
	id := traces.Identity{Group: "tasks.example.net", Version: "v1", Resource: "tasks", Namespace: "elsewhere", Name: "task-" + strconv.Itoa(task)}
	body := func(rv int64, status string) string {
		return fmt.Sprintf(`{"metadata":{"generation":%d,"name":%q,"namespace":"elsewhere","resourceVersion":"%d","uid":%q},"spec":{"n":%d},"status":{%s}}`, t.generation, id.Name, rv, t.uid, t.generation, status)
	}
	kind := traces.Modified
	if t.uid == "" {
		n.made++
		kind, t.uid = traces.Added, fmt.Sprintf("uid-task-%d", n.made)
	}
	t.generation++
	id.UID, id.Generation, id.ResourceVersion = t.uid, t.generation, rv
	show(id, kind, body(rv, ""), "oprec", neighbour)
	id.ResourceVersion = answer
	rows = append(rows, &traces.Request{
		Head: traces.Head{TS: ts, Seq: -1}, Identity: id, Start: ts, Process: neighbour, User: "system:serviceaccount:elsewhere:neighbour", UserAgent: "neighbour/v1", Verb: "patch",
		Subresource: "status", FieldManager: neighbour, ContentType: "application/merge-patch+json", RequestBody: `{"status":{}}`, Code: 200, Attempt: 1,
	})
	show(id, traces.Modified, body(answer, fmt.Sprintf(`"observedGeneration":%d`, t.generation)), "oprec", neighbour)
	return rows
}

// renumber gives each row its place, and follows what refers to others by seq.
func (v *variant) renumber(rows []traces.Record) {
	highest := int64(0)
	after := map[int64]int64{} // of an old seq, the highest new one up to it
	for i, row := range rows {
		h := row.Header()
		seq := int64(i + 1)
		if old := h.Seq; old > 0 {
			v.seqs[old] = seq
			highest = max(highest, old)
		}
		h.Seq = seq
	}
	last := int64(0)
	for old := int64(0); old <= highest; old++ {
		if seq, ok := v.seqs[old]; ok {
			last = max(last, seq)
		}
		after[old] = last
	}
	for _, row := range rows {
		switch x := row.(type) {
		case *traces.Request:
			if x.Process == neighbour {
				x.StartSeq = x.Seq - 1
				continue
			}
			x.StartSeq, x.ReconcileID = min(after[x.StartSeq], x.Seq-1), v.seqs[x.ReconcileID]
		case *traces.Reconcile:
			x.Trigger = v.seqs[x.Trigger]
		case *traces.Sample:
			x.ReconcileID = v.seqs[x.ReconcileID]
		case *traces.WatchEvent:
			if n, ok := strings.CutPrefix(x.Writer, "seq:"); ok {
				if old, err := strconv.ParseInt(n, 10, 64); err == nil {
					x.Writer = fmt.Sprintf("seq:%d", v.seqs[old])
				}
			}
		}
	}
}
