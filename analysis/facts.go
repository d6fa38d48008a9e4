package analysis

import (
	"strings"

	"github.com/opreplay/opreplay/analysis/internal/jsontext"
	"github.com/opreplay/opreplay/traces"
)

// Known is how the writer of a version is known.
type Known uint8

// The ways, worst first.
const (
	Unknown       Known = iota
	ManagedFields       // the newest entry of managedFields
	ByRequest           // the request was recorded, with this version as its answer
)

// Author is who wrote a version.
type Author struct {
	RV, Seq, TS int64 // the version, and the row that showed it first
	Process     *Process
	Manager     string
	Call        *Call // nil unless Known is ByRequest; its body is gone once the version has settled
	Known       Known
}

// Name is the writer in words.
func (a Author) Name() string {
	switch {
	case a.Process != nil:
		return a.Process.Name
	case a.Manager != "":
		return a.Manager
	case a.Call != nil && a.Call.UserAgent != "":
		agent, _, _ := strings.Cut(a.Call.UserAgent, "/")
		return agent
	}
	return "somebody"
}

// Change is a settled version.
type Change struct {
	State  *State
	Author Author
	// Before and After are the object's texts, "" when unknown. After the deletion, After is the last state.
	Before, After          string
	RV, PrevRV             int64
	Generation, PrevGen    int64
	Seq, TS                int64
	Created, Deleted       bool
	before                 *jsontext.Top // of Before
	after                  jsontext.Top
	model                  *Model
	way                    *Way // once it was asked for
	leaves                 []jsontext.Leaf
	diffed, known, managed bool
}

// Diff is what the version changed; known is false when one of the two texts is not.
func (c *Change) Diff() (leaves []jsontext.Leaf, known bool) {
	if !c.diffed {
		c.diffed = true
		if c.Before != "" && c.After != "" {
			c.leaves, c.known = c.model.differ.Tops(c.before, &c.after), true
		}
	}
	return c.leaves, c.known
}

// Get is the value at the path of keys in After, as written: it is found sooner than by looking through the text.
func (c *Change) Get(path ...string) (string, bool) { return c.after.Get(path...) }

// Manager is the field manager that wrote the version, by request or else by managedFields.
func (c *Change) Manager() string {
	if c.Author.Manager == "" && !c.managed {
		c.managed = true
		known := c.model.managers
		if c.Created { // perhaps before the recording
			known = nil
		}
		c.Author.Manager, c.way = c.model.shared(c.after.LastManager(known)), nil
		if c.Author.Known == Unknown && c.Author.Manager != "" {
			c.Author.Known = ManagedFields
		}
	}
	return c.Author.Manager
}

// Touches is whether the version may have changed something at the path of field names or beneath it, such as
// status.conditions: true for a first version and where the texts are not known. Detectors ask it before they look
// into a text, for the comparison is made once for all of them.
func (c *Change) Touches(path string) bool {
	leaves, known := c.Diff()
	if !known {
		return true
	}
	for i := range leaves {
		p := leaves[i].Path
		if strings.HasPrefix(p, path) && (len(p) == len(path) || p[len(path)] == '.' || p[len(path)] == '[') {
			return true
		}
		if strings.HasPrefix(path, p) && path[len(p)] == '.' { // what holds it came or went as a whole
			return true
		}
	}
	return false
}

// Event is a watch row at its place in the trace.
type Event struct {
	// Row is the row itself, whose texts are valid during the call only.
	Row *traces.WatchEvent
	// Process is who was told, nil for the recorder. State is the object, nil for bookmarks and errors and for an
	// event of an incarnation that is gone.
	Process *Process
	State   *State
	// Newest is the newest version of the object that the trace had shown before, to anybody, Told the newest that
	// this process had been told of it: 0 if there was none. A process that is told of a version older than Told has
	// gone back in time.
	Newest, Told int64
}

// Way is how a client makes a call. It is shared by all calls that are made in the same way.
type Way struct {
	Process            *Process
	UserAgent, Manager string
	Verb, Subresource  string
	ContentType        string
}

// Call is a request that ended.
type Call struct {
	*Way
	Seq, StartSeq, TS, Start int64
	// State is the object, nil where it is none that exists: a get or a write of what is not found, a refused create.
	State *State
	// Row is the whole row, which names the target also where State is nil. It is nil once the detectors' Call has
	// returned.
	Row            *traces.Request
	RV, Generation int64
	// Base is the resourceVersion in the request's body, 0 for none.
	Base   int64
	Code   int32
	Reason string
	Body   string
	// Empty is set when the answer carries a version that the object already had.
	Empty              bool
	Stack, ReconcileID int64

	linked bool // with a version, which has yet to settle or has
	wake   wake // for SelfLoop
}

// written is an Author in a form to remember.
type written struct {
	rv, seq, ts int64
	way         *Way
	call        *Call
	known       Known
}

func (w *written) author() Author {
	return Author{RV: w.rv, Seq: w.seq, TS: w.ts, Process: w.way.Process, Manager: w.way.Manager, Call: w.call, Known: w.known}
}

// written is the version's author, to remember.
func (c *Change) written() written {
	a := &c.Author
	if c.way == nil {
		if a.Call != nil {
			c.way = a.Call.Way
		} else {
			c.way = c.model.way(Way{Process: a.Process, Manager: a.Manager})
		}
	}
	return written{a.RV, a.Seq, a.TS, c.way, a.Call, a.Known}
}

// OK is whether the call succeeded.
func (c *Call) OK() bool { return c.Code >= 200 && c.Code < 300 }

// Write is whether the call would change an object.
func (c *Call) Write() bool {
	switch c.Verb {
	case "create", "update", "patch", "delete", "deletecollection":
		return true
	}
	return false
}

// Wholesale is whether the call replaces what it names rather than merging by key: an update, a JSON merge
// patch (RFC 7386 replaces lists), a JSON patch.
func (c *Call) Wholesale() bool {
	return c.Verb == "update" || strings.HasPrefix(c.ContentType, "application/merge-patch") || strings.HasPrefix(c.ContentType, "application/json-patch")
}

// kind says in words what kind of write it is.
func (c *Call) kind() string {
	what := c.Verb
	switch {
	case c.Verb != "patch":
	case strings.HasPrefix(c.ContentType, "application/merge-patch"):
		what = "merge patch"
	case strings.HasPrefix(c.ContentType, "application/json-patch"):
		what = "JSON patch"
	case strings.HasPrefix(c.ContentType, "application/apply-patch"):
		what = "apply"
	case strings.HasPrefix(c.ContentType, "application/strategic-merge-patch"):
		what = "strategic merge patch"
	}
	if c.Subresource != "" {
		what += " of " + c.Subresource
	}
	return what
}
