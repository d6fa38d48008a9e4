package replay

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/opreplay/opreplay/internal/cli"
	"github.com/opreplay/opreplay/sim/actor"
	"github.com/opreplay/opreplay/sim/apiserver"
	"github.com/opreplay/opreplay/traces"
)

// Past is a recorded cluster as it was at one moment, as far as the trace knows.
type Past struct {
	// Seq is the last row that had been written by then; Time is the moment, that of the row unless a
	// time was asked for.
	Seq     int64
	Time    time.Time
	Objects []apiserver.Recorded
}

// ReadPast finds the cluster of a trace as it was AT a moment: a row number (4711), a time
// (2026-01-31T12:00:00Z) or a duration since the trace's first row (90s); "" is the trace's end. An object
// that the trace first shows in a list is taken to have been there since its creationTimestamp.
//
// A moment that cannot be read or lies outside the trace is bad usage.
func ReadPast(ctx context.Context, t *traces.Trace, at string) (*Past, error) {
	h, err := readHistory(ctx, t, anybody{})
	if err != nil {
		return nil, err
	}
	if h.end == 0 {
		return nil, cli.Usagef("%s has no watch events and no requests: there is no cluster in it", t.Dir())
	}
	m, err := h.moment(at)
	if err != nil {
		return nil, err
	}
	p := &Past{Time: m.time}
	newest := map[actor.Ref]*version{}
	for _, o := range h.objects {
		p.Seq = max(p.Seq, o.seen(m))
		v := o.at(m)
		if v == nil || o.ref.Group == "apiregistration.k8s.io" {
			continue
		}
		if old := newest[o.ref]; old == nil || old.rv < v.rv {
			newest[o.ref] = v
		}
	}
	if m.seq > 0 {
		p.Seq = m.seq
	}
	for ref, v := range newest {
		p.Objects = append(p.Objects, apiserver.Recorded{
			GroupVersionResource: schema.GroupVersionResource{Group: ref.Group, Version: ref.Version, Resource: ref.Resource},
			Object:               []byte(v.json),
		})
	}
	slices.SortFunc(p.Objects, func(a, b apiserver.Recorded) int {
		return cmp.Or(cmp.Compare(a.GroupVersionResource.String(), b.GroupVersionResource.String()), cmp.Compare(string(a.Object), string(b.Object)))
	})
	return p, nil
}

// anybody has all calls count: their answers show versions that no watch may have shown.
type anybody struct{}

// Calls implements whose.
func (anybody) Calls(*traces.Request) bool { return true }

// Manages implements whose.
func (anybody) Manages(string) bool { return false }

// moment is a place in a trace.
type moment struct {
	seq  int64 // 0: by time
	time time.Time
}

func (h *history) moment(at string) (moment, error) {
	begin, end := time.Unix(0, h.start).UTC(), time.Unix(0, h.end).UTC()
	if at == "" {
		return moment{time: end}, nil
	}
	if seq, err := strconv.ParseInt(at, 10, 64); err == nil {
		if seq < 1 || seq > h.last {
			return moment{}, cli.Usagef("--at %d: the trace's rows are 1 to %d", seq, h.last)
		}
		return moment{seq: seq, time: h.row(seq)}, nil
	}
	when, err := time.Parse(time.RFC3339Nano, at)
	if err != nil {
		since, err := time.ParseDuration(at)
		if err != nil {
			return moment{}, cli.Usagef("--at %s: want a row number, a time as %s, or a time since the trace's beginning as 90s", at, end.Format(time.RFC3339))
		}
		when = begin.Add(since)
	}
	if when.Before(begin) || when.After(end) {
		return moment{}, cli.Usagef("--at %s: the trace begins at %s and ends at %s", at, begin.Format(time.RFC3339Nano), end.Format(time.RFC3339Nano))
	}
	return moment{time: when.UTC()}, nil
}

// row is the time of the newest version or end known at row SEQ.
func (h *history) row(seq int64) time.Time {
	ts := h.start
	see := func(v *version) {
		if v.seq <= seq {
			ts = max(ts, v.ts)
		}
	}
	for _, o := range h.objects {
		for _, v := range o.versions {
			see(v)
		}
		if o.gone != nil {
			see(o.gone)
		}
	}
	return time.Unix(0, ts).UTC()
}

// passed reports whether a version was known at the moment.
func (m moment) passed(v *version) bool {
	if m.seq > 0 {
		return v.seq <= m.seq
	}
	return v.ts <= m.time.UnixNano()
}

// seen is the last row about the object that had been written by the moment, that of its end included; 0: none.
func (o *object) seen(m moment) (seq int64) {
	for _, v := range o.versions {
		if m.passed(v) {
			seq = max(seq, v.seq)
		}
	}
	if o.gone != nil && m.passed(o.gone) {
		seq = max(seq, o.gone.seq)
	}
	return seq
}

// at is the object's version at the moment; nil when it was not there.
func (o *object) at(m moment) *version {
	if o.gone != nil && m.passed(o.gone) {
		return nil
	}
	for _, v := range slices.Backward(o.versions) {
		if m.passed(v) {
			return v
		}
	}
	if len(o.versions) == 0 || !o.versions[0].listed {
		return nil
	}
	if first := o.versions[0]; !creationTime(first).After(m.time) {
		return first
	}
	return nil
}

// String says which cluster it is.
func (p *Past) String() string {
	return fmt.Sprintf("as it was at %s, row %d: %d objects", p.Time.Format(time.RFC3339Nano), p.Seq, len(p.Objects))
}
