package causal

import (
	"fmt"
	"slices"
	"sort"
	"strconv"
	"strings"
)

// Link is how a step is known.
type Link struct {
	// Recorded is whether the trace itself says so; otherwise the step is inferred.
	Recorded bool
	// Confidence is how often a step that is known in this way is right, from 0 to 1; 1 for recorded ones.
	Confidence float64
	// By says by what it is known.
	By string
}

// The confidences of inferred steps. The tests hold them against traces whose links are known: in each way at least
// that share is right.
const (
	onlyDelete   = 0.9 // the one delete of the object that was under way
	byManager    = 0.7 // the newest field manager: a write that takes no field leaves no entry
	onePass      = 0.9 // the one reconcile of the process that was under way
	passOfName   = 0.9 // the one, of several, whose key names the object
	onlyEvent    = 0.8 // the only event since the last pass of the key, or the last write of the process
	firstEvent   = 0.6 // the first of several since the pass before began
	newestEvent  = 0.6 // the newest of several, where passes are not recorded
	timedRequeue = 0.9 // the pass before asked for just this time
	timedRetry   = 0.7 // the pass before failed
	aTimer       = 0.3 // an event long ago: more likely a timer
)

// Times of inference, in nanoseconds.
const (
	// soon is how long after an event a reconcile or, where none is recorded, a write is taken to follow from it: a
	// reconcile begins within milliseconds unless the queue is long.
	soon = int64(2e9)
	// nearly is how much a timer may be late.
	nearly = int64(100e6)
)

// Cause is what made the node happen, nil when nothing in the graph did; the Link then says what is known all the same.
func (g *Graph) Cause(n *Node) (*Node, Link) {
	switch n.Kind {
	case Version, Event:
		return g.madeBy(n)
	case Write:
		return g.doneIn(n)
	case Reconcile:
		return g.queuedBy(n)
	}
	return nil, Link{}
}

// madeBy is the write that made a version.
func (g *Graph) madeBy(n *Node) (*Node, Link) {
	if w := g.writes[version{n.Object.UID, n.Object.ResourceVersion}]; w != nil {
		return w, Link{Recorded: true, Confidence: 1, By: "its answer carries this version"}
	}
	if seq, named := strings.CutPrefix(n.Writer, "seq:"); named {
		s, _ := strconv.ParseInt(seq, 10, 64)
		if w := g.rows[s]; w != nil && w.Kind == Write {
			return w, Link{Recorded: true, Confidence: 1, By: "the event names the request"}
		}
	}
	if w := g.removal(n); w != nil {
		return w, Link{Confidence: onlyDelete, By: "the write that was under way when the object went"}
	}
	return nil, g.guess(n)
}

// guess is who may have made a version whose write was not recorded: the newest field manager that isn't a recorded
// process's, for the writes of those are known.
func (g *Graph) guess(n *Node) Link {
	if strings.Contains(n.changed, "metadata.deletionTimestamp") {
		return Link{By: "somebody deleted it, whose request was not recorded: a delete leaves no field manager"}
	}
	names := n.managers
	if n.Writer != "" && !strings.HasPrefix(n.Writer, "seq:") {
		names = append([]string{n.Writer}, names...)
	}
	for _, name := range names {
		if !g.managers[name] {
			return Link{Confidence: byManager, By: "field manager " + name + ", whose request was not recorded"}
		}
	}
	return Link{By: "somebody whose request was not recorded"}
}

// removal is the write by which an object went: the last one of those that made no version of their own.
func (g *Graph) removal(n *Node) *Node {
	first := g.versions[version{n.Object.UID, n.Object.ResourceVersion}]
	if n.Type != "DELETED" || first == nil {
		return nil
	}
	list := g.removals[n.Object.UID]
	for _, w := range slices.Backward(list) {
		if w.StartSeq < first.Seq {
			return w
		}
	}
	return nil
}

// doneIn is the reconcile in which a write was made, or where none is recorded the event that it followed from.
func (g *Graph) doneIn(w *Node) (*Node, Link) {
	if w.Process == "" {
		return nil, Link{By: "an outsider's: nothing that led to it was recorded"}
	}
	if p := g.rows[w.Reconcile]; p != nil && p.Kind == Reconcile {
		return p, Link{Recorded: true, Confidence: 1, By: "the write's row has its reconcile"}
	}
	if len(g.passes[w.Process]) > 0 {
		return g.passOf(w)
	}
	return g.answers(w)
}

// passOf is the recorded reconcile during which a write was made.
func (g *Graph) passOf(w *Node) (*Node, Link) {
	var open, named []*Node
	for name, list := range g.passes[w.Process] {
		i := sort.Search(len(list), func(i int) bool { return list[i].TS >= w.TS })
		if i == len(list) || list[i].Start > w.Start {
			continue
		}
		open = append(open, list[i])
		if name == w.Object.Namespace+"/"+w.Object.Name {
			named = append(named, list[i])
		}
	}
	switch {
	case len(named) == 1:
		return named[0], Link{Confidence: passOfName, By: "the reconcile of that key that was under way"}
	case len(open) == 1:
		return open[0], Link{Confidence: onePass, By: "the only reconcile that was under way"}
	}
	return nil, Link{By: fmt.Sprintf("%d reconciles were under way, none of this key", len(open))}
}

// answers is the event that a write followed from, where no reconciles are recorded: the newest about the object or its
// family that the process had been told of, if it wasn't long ago.
func (g *Graph) answers(w *Node) (*Node, Link) {
	family := w.Object.UID
	if n := g.newestOf(w); n != nil {
		family = n.family
	}
	var found *Node
	others := 0
	list := g.told[w.Process]
	i := sort.Search(len(list), func(i int) bool { return list[i].Seq > w.StartSeq })
	for i--; i >= 0 && w.Start-list[i].TS <= soon; i-- {
		e := list[i]
		switch {
		case !related(e, w, family):
			continue
		case found == nil:
			found = e
		default:
			others++
		}
	}
	switch {
	case found == nil:
		return g.longAgo(w, list)
	case others == 0:
		return found, Link{Confidence: onlyEvent, By: "the only event of the object's family just before"}
	}
	return found, Link{Confidence: newestEvent, By: "the newest event of the object's family before it"}
}

// related is whether an event is about the written object, its owner, what it owns, or one of the same name.
func related(e, w *Node, family string) bool {
	return e.Object.UID != "" && (e.Object.UID == w.Object.UID || e.family == family || e.Object.UID == family) ||
		e.Object.Name == w.Object.Name && e.Object.Namespace == w.Object.Namespace
}

// longAgo is the newest event about the object itself, however old.
func (g *Graph) longAgo(w *Node, list []*Node) (*Node, Link) {
	i := sort.Search(len(list), func(i int) bool { return list[i].Seq > w.StartSeq })
	for i--; i >= 0; i-- {
		if list[i].Object.UID == w.Object.UID || keyOf(&list[i].Object) == keyOf(&w.Object) {
			return list[i], Link{Confidence: aTimer, By: fmt.Sprintf("the last event about the object, %s before: more likely a timer", span(w.Start-list[i].TS))}
		}
	}
	return nil, Link{By: "no event led to it: a timer, a start, or something outside"}
}

// newestOf is the version of the written object that was newest when the write began.
func (g *Graph) newestOf(w *Node) *Node {
	if w.Object.ResourceVersion != 0 {
		if n := g.versions[version{w.Object.UID, w.Object.ResourceVersion}]; n != nil {
			return n
		}
	}
	return g.newest[keyOf(&w.Object)]
}

// queuedBy is what queued a reconcile: an event, or the reconcile before that asked for another.
func (g *Graph) queuedBy(p *Node) (*Node, Link) {
	if e := g.rows[p.Trigger]; e != nil {
		return e, Link{Recorded: true, Confidence: 1, By: "the reconcile's row has its trigger"}
	}
	before := g.passBefore(p)
	if before != nil && before.RequeueAfter > 0 {
		late := p.Start - before.TS - before.RequeueAfter
		if late > -nearly && late < nearly+before.RequeueAfter/10 {
			return before, Link{Confidence: timedRequeue, By: "it asked to be queued again after " + span(before.RequeueAfter)}
		}
	}
	if e, link := g.eventFor(p, before); e != nil {
		return e, link
	}
	if before != nil && (before.Outcome == "error" || before.Outcome == "requeue" || before.Outcome == "panic") {
		return before, Link{Confidence: timedRetry, By: "it ended in " + before.Outcome + ", and is tried again"}
	}
	return nil, Link{By: "no event led to it: a timer, a start, or something outside"}
}

// passBefore is the last reconcile of the same key and controller.
func (g *Graph) passBefore(p *Node) *Node {
	list := g.passes[p.Process][p.Object.Namespace+"/"+p.Object.Name]
	for _, q := range slices.Backward(list) {
		if q.Seq < p.Seq && q.Controller == p.Controller {
			return q
		}
	}
	return nil
}

// eventFor is the event since the last pass that concerns a reconcile's key: about an object of that name, or one whose
// owner has it. Of several it is the first: a queue holds a key once, and those after it add nothing.
func (g *Graph) eventFor(p, before *Node) (*Node, Link) {
	list := g.told[p.Process]
	i := sort.Search(len(list), func(i int) bool { return list[i].TS > p.Start })
	since := p.Start - soon
	if before != nil {
		since = before.Start // an event during a pass queues the next
	}
	var found *Node
	others := 0
	for i--; i >= 0 && list[i].TS >= since; i-- {
		e := list[i]
		named := e.Object.Name == p.Object.Name && e.Object.Namespace == p.Object.Namespace
		if !named && !g.owned(e, p) {
			continue
		}
		if found != nil {
			others++
		}
		found = e
	}
	switch {
	case found == nil:
		return nil, Link{}
	case others == 0:
		return found, Link{Confidence: onlyEvent, By: "the only event of its key since the pass before"}
	}
	return found, Link{Confidence: firstEvent, By: "the first event of its key since the pass before began"}
}

// owned is whether the event is about something whose owner has the reconcile's key.
func (g *Graph) owned(e, p *Node) bool {
	return e.family != e.Object.UID && g.names[e.family] == p.Object.Namespace+"/"+p.Object.Name
}
