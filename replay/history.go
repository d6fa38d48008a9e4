package replay

import (
	"cmp"
	"context"
	"encoding/json"
	"slices"
	"strings"

	"github.com/opreplay/opreplay/internal/apicall"
	"github.com/opreplay/opreplay/sim/actor"
	"github.com/opreplay/opreplay/traces"
)

// history is what a trace says of each object: its versions, and which of them the operator wrote.
type history struct {
	objects []*object // in the order in which they came up
	byUID   map[string]*object
	// calls are the operator's writes, in order, the refused ones among them.
	calls []*traces.Request
	// first is the operator's first call; nil when the trace has none of its calls.
	first *traces.Request
	// managed: managedFields name the operator as a writer. Only looked at without calls.
	managed bool
	// start and end are the times of the first and the last row.
	start, end int64
	// last is the last row's seq.
	last int64
	// manages says whether a field manager is the operator's.
	manages func(manager string) bool
}

// object is one incarnation of an object.
type object struct {
	ref      actor.Ref
	uid      string
	versions []*version // rising resourceVersions
	gone     *version   // its end; nil when it outlives the trace
	created  bool       // the operator created it
}

// version is one state of an object.
type version struct {
	rv      int64
	json    string
	seq, ts int64 // of the first row that shows it
	listed  bool  // only lists show it, no event
	// operator: the operator wrote this version; for the end, deleted the object or took its last finalizer.
	operator bool
}

// whose tells the operators' recorded calls and writes from others'.
type whose interface {
	Calls(r *traces.Request) bool
	Manages(manager string) bool
}

// groupResource tells resources apart whatever version they are read in.
type groupResource struct{ group, resource string }

// readHistory reads the whole trace. Its memory is that of the distinct versions.
func readHistory(ctx context.Context, t *traces.Trace, id whose) (*history, error) {
	b := &builder{
		history: &history{byUID: map[string]*object{}, manages: id.Manages}, id: id, trace: t,
		apiVersion: map[groupResource]string{}, captured: map[groupResource]bool{},
		initial: map[string][]*version{}, seen: map[versionKey]*version{},
	}
	for _, r := range t.Manifest().Resources {
		b.apiVersion[groupResource{r.Group, r.Resource}] = r.Version
	}
	for rec, err := range t.Records(ctx, traces.Range{Tables: []traces.Table{traces.TableWatch, traces.TableRequests}}) {
		if err != nil {
			return nil, err
		}
		h := rec.Header()
		if b.start == 0 {
			b.start = h.TS
		}
		b.end, b.last = max(b.end, h.TS), max(b.last, h.Seq)
		switch r := rec.(type) {
		case *traces.WatchEvent:
			b.event(r)
		case *traces.Request:
			if err := b.call(ctx, r); err != nil {
				return nil, err
			}
		}
	}
	b.finish()
	return b.history, nil
}

type versionKey struct {
	uid string
	rv  int64
}

// builder gathers a history.
type builder struct {
	*history
	id    whose
	trace *traces.Trace
	// apiVersion is the version in which a resource's objects are kept: the manifest's, else the first seen.
	apiVersion map[groupResource]string
	// captured are the resources that the recorder watched whole. An operator's own watch may be narrowed by a
	// selector, and says DELETED of an object that merely stopped to match.
	captured map[groupResource]bool
	// initial are, by stream, the events of a streaming list whose end mark has not come.
	initial map[string][]*version
	seen    map[versionKey]*version
	ends    []ending
	writes  []*traces.Request // successful ones of the operator that say which version they made
}

// ending is a DELETED event.
type ending struct {
	*version
	uid      string
	gr       groupResource
	captured bool
}

// isCapture: rows of a recorder's own watches, which see everything.
func isCapture(process string) bool { return process == "oprec" || process == "opsim" }

func (b *builder) event(w *traces.WatchEvent) {
	if w.Type == string(traces.Bookmark) {
		if strings.Contains(w.Object, "k8s.io/initial-events-end") {
			for _, v := range b.initial[w.Stream] {
				v.listed = true
			}
			delete(b.initial, w.Stream)
		}
		return
	}
	// A deletion that a recorder only inferred from a later list has no object.
	if w.UID == "" || w.Object == "" && w.Type != string(traces.Deleted) || w.Type == string(traces.Error) {
		return
	}
	gr := groupResource{w.Group, w.Resource}
	if !b.wants(gr, w.Version, w.Object) {
		return
	}
	b.captured[gr] = b.captured[gr] || isCapture(w.Process)
	ref := actor.Ref{Group: w.Group, Version: w.Version, Resource: w.Resource, Namespace: w.Namespace, Name: w.Name}
	if w.Type == string(traces.Deleted) {
		b.ends = append(b.ends, ending{
			&version{rv: w.ResourceVersion, json: w.Object, seq: w.Seq, ts: w.TS}, w.UID, gr, isCapture(w.Process),
		})
		b.object(ref, w.UID)
		return
	}
	v, isNew := b.version(ref, w.UID, w.ResourceVersion, w.Object, &w.Head)
	if v == nil {
		return
	}
	switch {
	case w.Type == string(traces.Sync):
		v.listed = v.listed || isNew
	case w.Type == string(traces.Added) && isNew:
		b.initial[w.Stream] = append(b.initial[w.Stream], v)
	default:
		v.listed = false
	}
}

// wants says whether the row shows whole objects in the version that is kept.
func (b *builder) wants(gr groupResource, apiVersion, text string) bool {
	kept, ok := b.apiVersion[gr]
	if !ok {
		b.apiVersion[gr], kept = apiVersion, apiVersion
	}
	if kept != apiVersion {
		return false
	}
	// Only a part of the object: a metadata informer's view of it.
	return !strings.Contains(text[:min(len(text), 200)], `"PartialObjectMetadata"`)
}

func (b *builder) object(ref actor.Ref, uid string) *object {
	o := b.byUID[uid]
	if o == nil {
		o = &object{ref: ref, uid: uid}
		b.byUID[uid] = o
		b.objects = append(b.objects, o)
	}
	return o
}

// version notes a version of an object; nil when the same object is known under another resource (events
// and ingresses live in two groups).
func (b *builder) version(ref actor.Ref, uid string, rv int64, text string, at *traces.Head) (v *version, isNew bool) {
	o := b.object(ref, uid)
	if o.ref.Group != ref.Group || o.ref.Resource != ref.Resource {
		return nil, false
	}
	k := versionKey{uid, rv}
	if v := b.seen[k]; v != nil {
		return v, false
	}
	v = &version{rv: rv, json: text, seq: at.Seq, ts: at.TS}
	b.seen[k] = v
	o.versions = append(o.versions, v)
	return v, true
}

func (b *builder) call(ctx context.Context, r *traces.Request) error {
	if !b.id.Calls(r) {
		return nil
	}
	if b.first == nil || r.Start < b.first.Start {
		b.first = r
	}
	if !isWrite(r.Verb) || dryRun(r) {
		return nil
	}
	b.calls = append(b.calls, r)
	if !succeeded(r) {
		return nil
	}
	if r.UID == "" || r.ResourceVersion == 0 || r.Verb == "deletecollection" {
		return nil
	}
	b.writes = append(b.writes, r)
	// The answer may show a version that no watch does.
	if r.Subresource != "" && r.Subresource != "status" || b.seen[versionKey{r.UID, r.ResourceVersion}] != nil {
		return nil
	}
	body, err := b.trace.ResponseBody(ctx, r)
	if err != nil {
		return err
	}
	if body == "" || !b.wants(groupResource{r.Group, r.Resource}, r.Version, body) {
		return nil
	}
	m, err := apicall.ParseMeta([]byte(body))
	if err != nil || m.UID != r.UID || r.Verb == "delete" && !strings.Contains(body, `"deletionTimestamp"`) {
		return nil //nolint:nilerr // not an object: nothing to learn from it
	}
	ref := actor.Ref{Group: r.Group, Version: r.Version, Resource: r.Resource, Namespace: r.Namespace, Name: r.Name}
	b.version(ref, r.UID, r.ResourceVersion, body, &r.Head)
	return nil
}

func succeeded(r *traces.Request) bool { return r.Code >= 200 && r.Code <= 299 }

func dryRun(r *traces.Request) bool { return strings.Contains(r.Query, "dryRun=") }

// finish settles who wrote what, once everything is known.
func (b *builder) finish() {
	for _, o := range b.objects {
		slices.SortFunc(o.versions, func(x, y *version) int { return cmp.Compare(x.rv, y.rv) })
	}
	for _, e := range b.ends {
		b.believe(e)
	}
	if b.first == nil {
		b.byManagers()
		return
	}
	b.byCalls()
}

// believe takes a DELETED event for an object's end, or does not.
func (b *builder) believe(e ending) {
	o := b.byUID[e.uid]
	if b.captured[e.gr] && !e.captured || o.ref.Group != e.gr.group || o.ref.Resource != e.gr.resource {
		return
	}
	if n := len(o.versions); n > 0 && o.versions[n-1].rv > e.rv && e.json != "" {
		return // it lived on: a watch with a selector lost sight of it
	}
	if o.gone == nil || e.seq < o.gone.seq {
		o.gone = e.version
	}
	if len(o.versions) == 0 && e.json != "" { // all that is known of it is its end
		o.versions = []*version{{rv: e.rv - 1, json: e.json, seq: e.seq, ts: e.ts, listed: true}}
	}
}

// byCalls marks the versions that the operator's calls made. An answer shows a version that the call
// did not make when the call changed nothing; such a version was known before.
func (b *builder) byCalls() {
	slices.SortFunc(b.writes, func(x, y *traces.Request) int { return cmp.Compare(x.Seq, y.Seq) })
	for _, r := range b.writes {
		v := b.seen[versionKey{r.UID, r.ResourceVersion}]
		if v == nil || v.seq <= r.StartSeq {
			continue
		}
		v.operator = true
		if o := b.byUID[r.UID]; r.Verb == "create" && r.Subresource == "" {
			o.created = true
		}
	}
	for _, r := range b.calls {
		if succeeded(r) {
			b.endedBy(r)
		}
	}
}

// endedBy marks the ends that one of the operator's calls brought about.
func (b *builder) endedBy(r *traces.Request) {
	switch r.Verb {
	case "deletecollection":
		for _, o := range b.objects {
			if o.gone != nil && r.StartSeq < o.gone.seq && !terminating(o.last()) &&
				o.ref.Group == r.Group && o.ref.Resource == r.Resource && (r.Namespace == "" || o.ref.Namespace == r.Namespace) &&
				o.last().seq <= r.Seq && o.gone.ts <= r.TS {
				o.gone.operator = true
			}
		}
	case "delete":
		if o := b.target(r); o != nil && o.gone != nil && r.StartSeq < o.gone.seq && !terminating(o.last()) {
			o.gone.operator = true
		}
	case "update", "patch":
		o := b.target(r)
		if o != nil && o.gone != nil && r.Subresource == "" && r.StartSeq < o.gone.seq && terminating(o.last()) && b.emptiesFinalizers(r) {
			o.gone.operator = true
		}
	}
}

// target is the incarnation that a call was about.
func (b *builder) target(r *traces.Request) *object {
	if o := b.byUID[r.UID]; o != nil {
		return o
	}
	var found *object
	for _, o := range b.objects {
		ref := o.ref
		if ref.Group == r.Group && ref.Resource == r.Resource && ref.Namespace == r.Namespace && ref.Name == r.Name &&
			len(o.versions) > 0 && o.versions[0].seq < r.Seq {
			found = o
		}
	}
	return found
}

// emptiesFinalizers: the call left an object that is being deleted without finalizers, which ends it.
func (b *builder) emptiesFinalizers(r *traces.Request) bool {
	body := r.ResponseBody
	if body == "" {
		body = r.RequestBody
	}
	var o struct {
		Metadata struct {
			Finalizers        []string `json:"finalizers"`
			DeletionTimestamp string   `json:"deletionTimestamp"`
		} `json:"metadata"`
	}
	if json.Unmarshal([]byte(body), &o) == nil && o.Metadata.DeletionTimestamp != "" {
		return len(o.Metadata.Finalizers) == 0
	}
	return r.Verb == "update" || strings.Contains(r.RequestBody, "finalizers")
}

func (o *object) last() *version { return o.versions[len(o.versions)-1] }

func terminating(v *version) bool { return strings.Contains(v.json, `"deletionTimestamp":"`) }

// byManagers marks the operator's versions by managedFields: where the trace has none of its calls.
func (b *builder) byManagers() {
	for _, o := range b.objects {
		var before *version
		for _, v := range o.versions {
			old := ""
			if before != nil {
				old = before.json
			}
			if !v.listed || before != nil {
				v.operator = b.id.Manages(writer(old, v.json))
				o.created = o.created || v.operator && before == nil
				b.managed = b.managed || v.operator
			}
			before = v
		}
		if o.gone != nil && terminating(o.last()) {
			o.gone.operator = b.ownsFinalizers(o.last().json)
		}
	}
}

// managedFields of an object.
type managedField struct {
	Manager     string          `json:"manager"`
	Operation   string          `json:"operation"`
	Subresource string          `json:"subresource"`
	Time        string          `json:"time"`
	FieldsV1    json.RawMessage `json:"fieldsV1"`
}

func managedFields(text string) []managedField {
	var o struct {
		Metadata struct {
			ManagedFields []managedField `json:"managedFields"`
		} `json:"metadata"`
	}
	_ = json.Unmarshal([]byte(text), &o) // what cannot be read has none
	return o.Metadata.ManagedFields
}

// writer is the field manager whose entry of managedFields differs between two versions, the latest of
// several. A second write of one manager within the same second may leave all entries as they were: then it is
// the latest of all.
func writer(before, after string) string { return writerBut(before, after, nil) }

// writerBut is writer where it is known that it was none of those whom NOT names: two who wrote within the
// same second cannot be told apart by managedFields alone.
func writerBut(before, after string, not func(manager string) bool) string {
	old := map[string]bool{}
	for _, m := range managedFields(before) {
		old[m.key()] = true
	}
	var changed, latest managedField
	for _, m := range managedFields(after) {
		if not != nil && not(m.Manager) {
			continue
		}
		if m.Time >= latest.Time {
			latest = m
		}
		if !old[m.key()] && m.Time >= changed.Time {
			changed = m
		}
	}
	if changed.Manager != "" {
		return changed.Manager
	}
	return latest.Manager
}

func (m managedField) key() string {
	return strings.Join([]string{m.Manager, m.Operation, m.Subresource, m.Time, string(m.FieldsV1)}, "\x00")
}

// ownsFinalizers: the finalizers that the object still has are the operator's, so that it was the
// operator that took the last one away.
func (b *builder) ownsFinalizers(text string) bool {
	for _, m := range managedFields(text) {
		if b.id.Manages(m.Manager) && strings.Contains(string(m.FieldsV1), `"f:finalizers"`) {
			return true
		}
	}
	return false
}
