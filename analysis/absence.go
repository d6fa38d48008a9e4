package analysis

import (
	"slices"
	"strings"
	"time"

	"github.com/opreplay/opreplay/traces"
)

// absence is what a finding rests on not having happened: rows of a table that there were not from one time to another,
// in nanoseconds. Where the trace is known to lack rows of that table and time, they may be among those, and the finding
// is none. The zero absence is of a finding that rests on what there is.
type absence struct {
	table    traces.Table
	from, to int64
	// object is one that it is about beside the finding's, of which the resource may be all that is known.
	object Object
	// told is set where what the process itself was told decides, and not only what there was.
	told bool
	// kept is set where it is only that something is still there, and what it was before would show: that a list tells
	// which has ended a loss.
	kept bool
}

// noEvents is that no watch told of something.
func noEvents(from, to int64) absence { return absence{table: traces.TableWatch, from: from, to: to} }

// notTold is that no watch of the process at fault told it of something.
func notTold(from, to int64) absence {
	return absence{table: traces.TableWatch, from: from, to: to, told: true}
}

// hides is whether a loss may be of what the finding takes not to have been.
func (f *Finding) hides(l traces.Loss, m *Model) bool {
	a := &f.absent
	if a.table == "" || l.From.After(at(a.to)) || l.To.Before(at(a.from)) {
		return false
	}
	if a.kept && l.Relisted() {
		return false
	}
	table, stream, _ := strings.Cut(l.Source, "/")
	if table == "capture" {
		table = string(traces.TableWatch)
	}
	// So many requests lack their texts, or an end; how many have no row at all is never known.
	rows := a.table != traces.TableRequests || l.Count < 0
	if table != "trace" && (table != string(a.table) || !rows) {
		return false
	}
	return stream == "" || f.concernedBy(stream, m)
}

// concernedBy is whether a stream, GROUP/RESOURCE of the recorder's watches or PROCESS/… of a process's own, may have
// rows that the finding is about.
func (f *Finding) concernedBy(stream string, m *Model) bool {
	first, rest, _ := strings.Cut(stream, "/")
	if m.processes[first] != nil {
		return (f.Process == "" || f.Process == first) && (f.absent.table != traces.TableWatch || f.absent.told || !m.captured(f))
	}
	resource, _, _ := strings.Cut(rest, "/")
	if !slices.ContainsFunc(m.Manifest.Resources, func(r traces.Resource) bool { return r.Resource == resource }) {
		return true
	}
	return resource == f.absent.object.Resource || f.Total > int64(len(f.Objects)) || slices.ContainsFunc(f.Objects, func(o Object) bool { return o.Resource == resource })
}

// captured is whether the recorder's own watches show what the finding is about: what a process's own lack of it is there
// then.
func (m *Model) captured(f *Finding) bool {
	unseen := func(o Object) bool {
		s := m.ByUID(o.UID)
		return s == nil || !s.captured
	}
	return !slices.ContainsFunc(f.Objects, unseen) && (f.absent.object.UID == "" || !unseen(f.absent.object))
}

// supposed is the finding as a note, for rows that may show the contrary are lost.
func (f *Finding) supposed() Note {
	return Note{
		Process: f.Process, Objects: f.Objects, Total: f.Total, Field: f.Field, Count: max(f.Evidence.Total, 1),
		What: f.What + "; or so it seems, for the trace is known to lack rows of that time (" + spell(f.absent.from, f.absent.to) + "), which may show the contrary",
	}
}

// spell writes a stretch of time.
func spell(from, to int64) string {
	return at(from).Format(time.TimeOnly) + " to " + at(to).Format(time.TimeOnly)
}
