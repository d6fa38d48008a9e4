package fault

import (
	"fmt"
	"time"
)

// Effect is what follows from something that has happened.
type Effect struct {
	// Released: a hold has ended. Ask again about every event that is held.
	Released bool
	// Begun are moments at which to call Expire.
	Begun []Deadline
	// Actions are to be carried out now, in their order.
	Actions []Action
}

// release has the events that a hold kept looked at again, if it has ended.
func (fx *Effect) release(ended bool) { fx.Released = fx.Released || ended }

// Deadline has Expire called for a rule after a time.
type Deadline struct {
	Rule  int
	After time.Duration
	// What will happen then, in words.
	What string
	// Fault is the one-line form of the fault.
	Fault string

	stage int // which of the rule's deadlines
}

// Do is a kind of action.
type Do string

// What a plan does to the processes and to the clock of a world, beyond the calls and events that pass.
const (
	DoKill    Do = "kill"    // ends Process at once, as kill -9 does; nothing if it is not there
	DoStart   Do = "start"   // starts Process again, a new incarnation of it, which is shown View; nothing if it is there
	DoPause   Do = "pause"   // keeps all threads of Process from running
	DoResume  Do = "resume"  // ends that
	DoCurrent Do = "current" // Process is shown the present from now on, if the view that it is shown is Fault's
	DoSkip    Do = "skip"    // moves the clock on by Clock at once
	DoCut     Do = "cut"     // ends the watches that Matches means
	DoAlter   Do = "alter"   // has somebody change the object at Path as Alter says
)

// Action is one thing to do.
type Action struct {
	Do      Do
	Fault   string // the one-line form of the fault that wants it
	Process string
	Clock   time.Duration
	View    *Past // of DoStart; nil for the present

	// Gone has a client whose watch is Cut find that its version is too old to resume from.
	Gone bool
	// Broken breaks the connection of a watch that is Cut, which else ends in order.
	Broken bool
	cut    func(Event) bool

	// Path is the URL path of an object, Alter makes its new text of its present one. An error that is an Unfit
	// says that the plan does not go with this run.
	Path  string
	Alter func(object []byte) ([]byte, error)
}

// Matches says whether a watch is to be Cut: E is any event that it could have, of which only the client, the
// stream, the group and the resource are looked at.
func (a Action) Matches(e Event) bool { return a.cut != nil && a.cut(e) }

// String says it in words.
func (a Action) String() string {
	switch a.Do {
	case DoSkip:
		return fmt.Sprintf("the clock skips %s", a.Clock)
	case DoCut:
		how := "in order"
		if a.Broken {
			how = "with their connection"
		}
		if a.Gone {
			return "watches end " + how + "; their versions are gone"
		}
		return "watches end " + how
	case DoAlter:
		return "alter " + a.Path
	case DoCurrent:
		return a.Process + " is shown the present again"
	case DoStart:
		if a.View != nil {
			return fmt.Sprintf("start %s, which is shown the past: %s", a.Process, a.View)
		}
	case DoKill, DoPause, DoResume: // by their names
	}
	return string(a.Do) + " " + a.Process
}

// Mark has the version of the world remembered, under its rule's number, at a moment of a call.
type Mark struct {
	Rule  int
	After bool // just after the call has been executed; else just before
}

// Past is what a process is shown of one resource, or of all: a state that it had.
type Past struct {
	// Rule is the number of the Mark that says when.
	Rule int
	// Group (unless AnyGroup) and Resource are what is shown so; "*" for all.
	Group    string
	AnyGroup bool
	Resource string
	// Namespace ("" or "*" for any) and Name are of an object in it: then the state is the latest in which this
	// object was as it was at the Mark. Without a Name it is the state at the Mark.
	Namespace, Name string
	// Cached shows it only to reads that an API server may answer from a cache that lags.
	Cached bool
	text   string
}

// Means says whether the past is one of that resource.
func (p *Past) Means(group, resource string) bool {
	return p.Resource == "*" || p.Resource == resource && (p.AnyGroup || p.Group == group)
}

// String is the view as the plan has it.
func (p *Past) String() string { return p.text }
