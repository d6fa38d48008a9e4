package recorder

import (
	"net/http"
	"strings"
	"time"

	"github.com/opreplay/opreplay/traces"
)

// results finds what a write came to, where no proxy sees its answer, in what the recorder's own watches tell: the
// version that it made. It claims none that somebody else may have made.
type results struct {
	watches   func(group, resource, namespace string) bool
	histories histories
	managers  map[string]string // by process: whose writes name no field manager are seen to have this one; "" several

	unclear   int64 // writes whose version is not known
	unwatched int64
}

func newResults(watches func(group, resource, namespace string) bool) *results {
	return &results{watches: watches, managers: map[string]string{}}
}

// state is one version of an object, as a watch told of it.
type state struct {
	at      time.Duration
	row     *traces.WatchEvent
	before  *state // nil: there was none, or it is not known
	known   bool   // what was before is known, also that nothing was
	claimed bool   // a call made it
}

func (s *state) there() bool { return s != nil && s.row.Type != string(traces.Deleted) }

// hear notes an event.
func (r *results) hear(at time.Duration, e *traces.WatchEvent) {
	switch traces.EventType(e.Type) {
	case traces.Bookmark, traces.Error:
		return
	}
	if e.Object != "" { // a deletion that was inferred from a list shows nothing
		r.histories.add(at, e)
	}
}

// of fills the row of a call, which began and ended at those times, with what it came to. It returns the event of the
// version that the call made, nil where it made none or where that is not certain.
func (r *results) of(row *traces.Request, began, ended time.Duration) *traces.WatchEvent {
	if !isWrite(row.Verb) || row.Code < 200 || row.Code > 299 || strings.Contains(row.Query, "dryRun=") {
		r.attribute(row, nil)
		return nil
	}
	if r.watches == nil || !r.watches(row.Group, row.Resource, row.Namespace) {
		r.unwatched++
		r.attribute(row, nil)
		return nil
	}
	w := write{row: row, body: parseBody(row), window: r.window(row, began, ended+resultTime)}
	result, made := w.result(r.histories.last(row, began))
	if s := w.only(); result == nil && s != nil && row.FieldManager != "" && changedBy(s) == row.FieldManager {
		result, made = s, true // nobody else is called so
	}
	if result == nil {
		r.unclear++
		r.attribute(row, nil)
		return nil
	}
	w.fill(result)
	if !made {
		r.attribute(row, nil)
		return nil
	}
	result.claimed = true
	r.attribute(row, result)
	return result.row
}

// window are the versions of the call's object that were told of while it was under way and shortly after.
func (r *results) window(row *traces.Request, from, to time.Duration) (in []*state) {
	for _, s := range r.histories.named(row) {
		if s.at >= from && s.at <= to && !s.claimed {
			in = append(in, s)
		}
	}
	return in
}

// attribute fills in the field manager where the call names none: the API server takes it from the User-Agent, which
// no probe reads, and a version that the call made has it in its managedFields.
func (r *results) attribute(row *traces.Request, made *state) {
	switch row.Verb {
	case "create", "update", "patch":
	default:
		return
	}
	if row.FieldManager != "" {
		return
	}
	if name := changedBy(made); name != "" {
		row.FieldManager = name
		if old, known := r.managers[row.Process]; known && old != name {
			name = "" // it calls itself now so and now so
		}
		r.managers[row.Process] = name
		return
	}
	row.FieldManager = r.managers[row.Process]
}

func isWrite(verb string) bool {
	switch verb {
	case "create", "update", "patch", "delete":
		return true
	}
	return false
}

// write is a write that succeeded, and the versions that it may have made.
type write struct {
	row    *traces.Request
	body   any
	window []*state
}

// only is the only version in the window.
func (w *write) only() *state {
	if len(w.window) == 1 {
		return w.window[0]
	}
	return nil
}

// result is the version that the write was answered with, and whether the write made it: else it found things as it
// wanted them. It is nil where that is not certain. LAST is the object as it was when the call began, nil where that
// is not known.
func (w *write) result(last *state) (s *state, made bool) {
	switch {
	case w.row.Subresource == "" && (w.row.Verb == "create" || w.row.Code == http.StatusCreated):
		return w.created(), true
	case w.row.Verb == "delete":
		return w.deleted(), true
	case w.body == nil, w.row.Verb == "create":
		return nil, false
	}
	if base := baseVersion(w.body); w.row.Verb == "update" && base != 0 {
		return w.updated(last, base)
	}
	return w.patched(last)
}

// created: an object can only be created by one call at a time.
func (w *write) created() (s *state) {
	for _, c := range w.window {
		if c.row.Type == string(traces.Modified) || c.row.Type == string(traces.Deleted) || c.known && c.before.there() {
			continue
		}
		if w.row.Name == "" && !(prefixed(c.row.Name, generatePrefix(w.body)) && w.holds(c, false)) {
			continue
		}
		if s != nil {
			return nil
		}
		s = c
	}
	return s
}

// deleted: the first version that ends, or is about to.
func (w *write) deleted() *state {
	for _, c := range w.window {
		if c.row.Type == string(traces.Deleted) && !terminating(c.before) || terminating(c) && c.known && c.before.there() && !terminating(c.before) {
			return c
		}
	}
	return nil
}

// updated: an update that names the version it was made from made the next one, or none.
func (w *write) updated(last *state, base int64) (s *state, made bool) {
	for _, c := range w.window {
		switch {
		case !c.known || c.before == nil || c.before.row.ResourceVersion != base:
		case unchanged(w.row, w.body, c.before.row.Object):
			return c.before, false // and this one is somebody else's
		case w.ends(c) || w.holds(c, false):
			return c, true
		}
	}
	if last != nil && last.row.ResourceVersion == base && len(w.window) == 0 && unchanged(w.row, w.body, last.row.Object) {
		return last, false
	}
	return nil, false
}

// patched: the version in which what the patch asks for is so, and before it is not.
func (w *write) patched(last *state) (s *state, made bool) {
	for _, c := range w.window {
		if c.known && c.before != nil && (w.ends(c) || w.became(c, false) || w.became(c, true)) {
			return c, true
		}
	}
	if last != nil && len(w.window) == 0 && w.holds(last, true) {
		return last, false
	}
	return nil, false
}

func (w *write) holds(s *state, exactly bool) bool {
	return holds(w.row, w.body, s.row.Object, exactly)
}

// became says whether what is asked for came about with the version.
func (w *write) became(s *state, exactly bool) bool {
	return w.holds(s, exactly) && !w.holds(s.before, exactly)
}

// ends says whether the version is the end of an object that waited for the finalizer which the call takes away.
func (w *write) ends(c *state) bool {
	return c.row.Type == string(traces.Deleted) && terminating(c.before) && strings.Contains(w.row.RequestBody, `finalizers`)
}

// fill takes the object's identity from the version. A deletion is answered with a Status, which has none but the
// uid, unless the object stays for a while.
func (w *write) fill(s *state) {
	id := &w.row.Identity
	if id.Name == "" {
		id.Name = s.row.Name
	}
	id.UID = s.row.UID
	if w.row.Verb == "delete" && s.row.Type == string(traces.Deleted) {
		return
	}
	id.ResourceVersion, id.Generation = s.row.ResourceVersion, s.row.Generation
}

// terminating says whether the object waits for its end in this version.
func terminating(s *state) bool {
	return s != nil && strings.Contains(s.row.Object, `"deletionTimestamp":"`)
}
