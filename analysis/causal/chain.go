package causal

import (
	"fmt"
	"strings"
	"time"

	"github.com/opreplay/opreplay/traces"
)

// Schema names the form of a Chain's JSON: see docs/findings/json.md.
const Schema = "opreplay.why/v1"

// Chain is why something happened, from it back to what began it.
type Chain struct {
	Schema string `json:"schema"`
	Trace  string `json:"trace"`
	// Target is what was asked about, in words.
	Target string `json:"target"`
	Steps  []Step `json:"steps"`
}

// Step is one link of a chain: what happened, and how it is known that the step before followed from it.
type Step struct {
	// Seq is the row, 0 for what the trace doesn't have.
	Seq  int64     `json:"seq,omitempty"`
	Time time.Time `json:"time,omitzero"`
	Kind Kind      `json:"kind"`
	// What says it in a sentence without the final stop, Object which object it is about, Process who did it.
	What    string `json:"what"`
	Object  string `json:"object,omitempty"`
	Process string `json:"process,omitempty"`
	// Known is "recorded" or "inferred", "" for the first step; Confidence is 1 for what was recorded, By how it is known.
	Known      string  `json:"known,omitempty"`
	Confidence float64 `json:"confidence,omitempty"`
	By         string  `json:"by,omitempty"`
	// Code is the line of code that made the call, where its stack was recorded; Stack is its row in the stacks table.
	Code  string `json:"code,omitempty"`
	Stack int64  `json:"stack,omitempty"`
	// Times is how many times in a row this step and the ones up to the next with another Times happened like this; 0
	// means once.
	Times int64 `json:"times,omitempty"`
}

// Unknown is the kind of a chain's last step where its cause isn't in the trace.
const Unknown Kind = "unknown"

// Bounds of a chain.
const (
	maxWalk  = 4096 // links that are followed
	maxCycle = 12   // links of a loop that is told once
)

type step struct {
	node *Node
	link Link // how it is known that the node before followed from this one
}

// Chain is the causes of a row, back to where they end.
func (g *Graph) Chain(seq int64) []Step {
	n := g.rows[seq]
	if n == nil {
		return nil
	}
	walk := []step{{node: n}}
	seen := map[*Node]bool{n: true}
	for len(walk) < maxWalk {
		cause, link := g.Cause(n)
		walk = append(walk, step{cause, link})
		if cause == nil || seen[cause] {
			break
		}
		seen[cause] = true
		n = cause
	}
	return g.tell(walk)
}

// tell puts a walk into words; what goes round and round is told once.
func (g *Graph) tell(walk []step) []Step {
	var out []Step
	for i := 0; i < len(walk); {
		cycle, times := repeats(walk[i:])
		if times < 2 {
			out = append(out, g.step(walk[i]))
			i++
			continue
		}
		for _, s := range walk[i : i+cycle] {
			x := g.step(s)
			x.Times = int64(times)
			out = append(out, x)
		}
		i += cycle * times
	}
	return out
}

// repeats is the shortest cycle at the beginning of a walk, and how many times it comes in a row.
func repeats(walk []step) (cycle, times int) {
	for cycle = 2; cycle <= maxCycle && 2*cycle <= len(walk); cycle++ {
		times = 1
		for (times+1)*cycle <= len(walk) && alike(walk[:cycle], walk[times*cycle:(times+1)*cycle]) {
			times++
		}
		if times > 1 {
			return cycle, times
		}
	}
	return 1, 1
}

func alike(a, b []step) bool {
	for i := range a {
		x, y := a[i].node, b[i].node
		if x == nil || y == nil || x.Kind != y.Kind || x.Process != y.Process || x.Verb != y.Verb || x.Subresource != y.Subresource ||
			keyOf(&x.Object) != keyOf(&y.Object) || x.Controller != y.Controller || x.changed != y.changed {
			return false
		}
	}
	return true
}

// step puts one node into words.
func (g *Graph) step(s step) Step {
	n := s.node
	if n == nil {
		return Step{Kind: Unknown, What: s.link.By, Known: "inferred", Confidence: s.link.Confidence}
	}
	x := Step{Seq: n.Seq, Time: at(n.TS), Kind: n.Kind, Object: name(&n.Object), Process: n.Process, Confidence: s.link.Confidence, By: s.link.By}
	switch {
	case s.link.Recorded:
		x.Known = "recorded"
	case s.link.By != "":
		x.Known = "inferred"
	}
	switch n.Kind {
	case Version:
		x.What = "version" + rv(n) + " of " + x.Object + n.change()
	case Event:
		x.What = fmt.Sprintf("%s is told of version%s of %s (%s)%s", n.Process, rv(n), x.Object, n.Type, n.change())
	case Write:
		x.What = n.wrote(x.Object)
		if frames := g.stacks[n.Stack]; frames != nil {
			x.Stack, x.Code = n.Stack, Line(lineOf(frames))
		}
	case Reconcile:
		x.Object = strings.TrimPrefix(n.Object.Namespace+"/"+n.Object.Name, "/")
		x.What = n.reconciled(x.Object)
	}
	return x
}

// lineOf is the operator's own frame, else the leaf.
func lineOf(frames []traces.Frame) *traces.Frame {
	if f := Own(frames); f != nil {
		return f
	}
	if len(frames) > 0 {
		return &frames[0]
	}
	return nil
}

func (n *Node) change() string {
	switch {
	case n.changed == "":
		return ""
	case strings.HasPrefix(n.changed, "it is"):
		return ": " + n.changed
	}
	return ", which changed " + n.changed
}

func (n *Node) wrote(object string) string {
	who := n.Process
	if who == "" {
		if who, _, _ = strings.Cut(n.Agent, "/"); who == "" {
			who = "somebody"
		}
	}
	verb := map[string]string{"create": "creates", "update": "updates", "delete": "deletes", "patch": "patches"}[n.Verb]
	if n.Patch == "apply" {
		verb = "applies"
	}
	what := who + " " + verb + " "
	if n.Subresource != "" {
		what += n.Subresource + " of "
	}
	what += object
	if n.Manager != "" && n.Manager != n.Process {
		what += ", as field manager " + n.Manager
	}
	if n.Code >= 400 || n.Code == 0 {
		what += fmt.Sprintf(", answered %d", n.Code)
	}
	return what
}

func (n *Node) reconciled(key string) string {
	what := n.Process + " reconciles " + key
	if n.Controller != "" {
		what += " in controller " + n.Controller
	}
	switch {
	case n.Error != "":
		what += ", which fails: " + short(n.Error)
	case n.RequeueAfter > 0:
		what += ", again after " + span(n.RequeueAfter)
	case n.Outcome != "" && n.Outcome != "success":
		what += ", outcome " + n.Outcome
	}
	return what
}

func short(s string) string {
	if r := []rune(s); len(r) > 120 {
		return string(r[:119]) + "…"
	}
	return s
}

func rv(n *Node) string {
	if n.Object.ResourceVersion == 0 {
		return ""
	}
	return fmt.Sprintf(" %d", n.Object.ResourceVersion)
}

// name is an object as findings write it: sites.web.example.com shop/front.
func name(id *traces.Identity) string {
	n := id.Resource
	if id.Group != "" {
		n += "." + id.Group
	}
	if id.Namespace != "" {
		return n + " " + id.Namespace + "/" + id.Name
	}
	return n + " " + id.Name
}

// span is a duration with two or three digits that count.
func span(ns int64) string {
	d := time.Duration(ns)
	switch {
	case d >= 100*time.Second:
		return d.Round(time.Second).String()
	case d >= time.Second:
		return d.Round(10 * time.Millisecond).String()
	case d >= time.Millisecond:
		return d.Round(10 * time.Microsecond).String()
	}
	return d.String()
}
