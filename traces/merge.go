package traces

import (
	"cmp"
	"container/heap"
	"context"
	"fmt"
	"math"
	"slices"
)

// merge puts the row groups of any number of files into the order of Seq. It opens a file when the
// order reaches its first row, decodes a row group likewise, and lets go of both as soon as it can.
type merge struct {
	ctx    context.Context
	trace  *Trace
	sel    *selection
	files  []File   // not yet opened, by FirstSeq
	groups []*group // not yet decoded, by firstSeq
	runs   runs     // decoded
	users  map[*openFile]int
	last   *run  // the one that next() took from
	high   int64 // seq of the last record
	*reading
}

// run is one row group, in the order of Seq.
type run struct {
	g    *group
	rows batch
	seqs []int64 // of rows
	next int     // of them
	seq  int64   // of the next
}

func newMerge(ctx context.Context, t *Trace, r *Range) *merge {
	m := &merge{ctx: ctx, trace: t, sel: r.selection(), users: map[*openFile]int{}, high: math.MinInt64, reading: newReading(r.Reuse)}
	for _, f := range t.manifest.Files {
		wanted := kindOf(f.Table) >= 0 && (r.Tables == nil || containsTable(r.Tables, f.Table))
		if wanted && f.Rows > 0 && f.FirstSeq <= m.sel.toSeq && f.LastSeq >= m.sel.fromSeq && f.FirstTS <= m.sel.toTS && f.LastTS >= m.sel.fromTS {
			m.files = append(m.files, f)
		}
	}
	slices.SortStableFunc(m.files, func(a, b File) int { return cmp.Compare(a.FirstSeq, b.FirstSeq) })
	return m
}

// next is the next record, or nil at the end.
func (m *merge) next() (Record, error) {
	if err := m.ctx.Err(); err != nil {
		return nil, err
	}
	if m.last != nil {
		if m.last.next < len(m.last.seqs) {
			m.last.seq = m.last.seqs[m.last.next]
			m.runs.sink()
		} else {
			heap.Pop(&m.runs)
			m.over(m.last.g.file.kind, m.last.rows)
			m.release(m.last.g.file)
		}
		m.last = nil
	}
	if err := m.fill(); err != nil {
		return nil, err
	}
	if len(m.runs) == 0 {
		return nil, nil
	}
	r := m.runs[0]
	if r.seq < m.high { // rows before it may be used up already, and what stands in its file's statistics is not so
		return nil, &FormatError{Path: r.g.file.path, Detail: fmt.Sprintf("seq %d comes after %d", r.seq, m.high), Hint: "the trace is damaged, or was written by something else: see oprec verify"}
	}
	m.high = r.seq
	rec := r.rows.take(r.next)
	r.next++
	m.last = r
	return rec, nil
}

// fill decodes groups until the first run is surely the next.
func (m *merge) fill() error {
	for {
		switch {
		case len(m.files) > 0 && !m.before(m.files[0].FirstSeq):
			f := m.files[0]
			m.files = m.files[1:]
			if err := m.openFile(f); err != nil {
				return err
			}
		case len(m.groups) > 0 && (len(m.runs) == 0 || m.runs[0].seq >= m.groups[0].firstSeq):
			g := m.groups[0]
			m.groups = m.groups[1:]
			if err := m.decode(g); err != nil {
				return err
			}
		default:
			return nil
		}
	}
}

// before says that something at hand comes before seq.
func (m *merge) before(seq int64) bool {
	return len(m.runs) > 0 && m.runs[0].seq < seq || len(m.groups) > 0 && m.groups[0].firstSeq < seq
}

func (m *merge) openFile(f File) error {
	o, err := m.trace.open(m.ctx, f)
	if err != nil {
		return err
	}
	m.users[o] = 1 // until the groups are counted
	gs, err := o.groups(m.sel)
	if err != nil {
		return err
	}
	m.users[o] += len(gs)
	m.groups = append(m.groups, gs...)
	slices.SortStableFunc(m.groups, func(a, b *group) int { return cmp.Compare(a.firstSeq, b.firstSeq) })
	m.release(o)
	return nil
}

func (m *merge) decode(g *group) error {
	m.reclaim()
	rows, err := g.read(m.sel, m.reading)
	if err != nil {
		return err
	}
	if rows == nil {
		m.release(g.file)
		return nil
	}
	seqs := rows.seqs()
	heap.Push(&m.runs, &run{g: g, rows: rows, seqs: seqs, seq: seqs[0]})
	return nil
}

// release lets go of a file for one of its groups.
func (m *merge) release(o *openFile) {
	if m.users[o]--; m.users[o] == 0 {
		delete(m.users, o)
		_ = o.close() // only read
	}
}

func (m *merge) close() {
	for o := range m.users {
		_ = o.close() // only read
	}
}

// sink is heap.Fix for the first, which each row calls.
func (r runs) sink() {
	first, i := r[0], 0
	for {
		least := 2*i + 1
		if least >= len(r) {
			break
		}
		if next := least + 1; next < len(r) && r[next].seq < r[least].seq {
			least = next
		}
		if r[least].seq >= first.seq {
			break
		}
		r[i], i = r[least], least
	}
	r[i] = first
}

// runs is a heap by the seq of the first row.
type runs []*run

func (r runs) Len() int           { return len(r) }
func (r runs) Less(i, j int) bool { return r[i].seq < r[j].seq }
func (r runs) Swap(i, j int)      { r[i], r[j] = r[j], r[i] }
func (r *runs) Push(x any)        { *r = append(*r, x.(*run)) }
func (r *runs) Pop() any {
	old := *r
	x := old[len(old)-1]
	old[len(old)-1] = nil
	*r = old[:len(old)-1]
	return x
}
