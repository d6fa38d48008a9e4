package actor

import (
	"fmt"
	"time"
)

// Kind is what a step does.
type Kind string

// The kinds of steps.
const (
	Create Kind = "create"
	Change Kind = "change"
	Delete Kind = "delete"
)

// Ref names an object.
type Ref struct {
	Group, Version, Resource string
	Namespace, Name          string
}

// String is the object as kubectl names it, the namespace in front.
func (r Ref) String() string {
	s := r.Resource
	if r.Group != "" {
		s += "." + r.Group
	}
	if r.Namespace != "" {
		s = r.Namespace + "/" + s
	}
	return s + "/" + r.Name
}

// Step is one recorded change by an outsider.
type Step struct {
	Ref
	// Seq is the recorded row that showed the change.
	Seq int64
	// At is when it happened, from the script's start.
	At   time.Duration
	Kind Kind
	// Before and After are the object's JSON on both sides of the change. A create has no Before. A delete has
	// an After when the object lived on with a deletionTimestamp.
	Before, After string
	// UID, ResourceVersion and Time are what the recording has for After.
	UID             string
	ResourceVersion int64
	Time            time.Time
	// Manager is the field manager that made the change, "" where it is not known.
	Manager string
	// Collected marks a delete by the garbage collector: it happens only when an owner is gone.
	Collected bool
}

// String says what the step does.
func (s Step) String() string { return fmt.Sprintf("%s %s", s.Kind, s.Ref) }

// Result is what became of a step.
type Result string

// The results of a step.
const (
	// Applied: the cluster has changed.
	Applied Result = "applied"
	// Unchanged: there was nothing left to change.
	Unchanged Result = "unchanged"
	// Skipped: the step does not fit the cluster as it is now.
	Skipped Result = "skipped"
	// Waiting: the step may fit later. Apply it again.
	Waiting Result = "waiting"
)

// Outcome is what became of a step, and why.
type Outcome struct {
	Result Result
	// Detail says why it was skipped or waits, "" otherwise.
	Detail string
}

func skipped(format string, args ...any) Outcome {
	return Outcome{Skipped, fmt.Sprintf(format, args...)}
}
