package traces

import (
	"cmp"
	"math"
	"slices"
	"strings"

	"github.com/parquet-go/parquet-go"
)

// selection is what a read wants of a row group.
type selection struct {
	columns        []string // nil means all
	omit           []string // none of these
	fromSeq, toSeq int64
	fromTS, toTS   int64
}

func (s *selection) column(name string) bool {
	top, _, _ := strings.Cut(name, ".")
	return (s.columns == nil || slices.Contains(s.columns, top)) && !slices.Contains(s.omit, top)
}

func (s *selection) row(h *Head) bool {
	return h.Seq >= s.fromSeq && h.Seq <= s.toSeq && h.TS >= s.fromTS && h.TS <= s.toTS
}

// batch are the rows of one row group that a read wants.
type batch interface {
	// seqs are the rows' seqs, in their order.
	seqs() []int64
	// take gives the i-th in the order of seqs. Rows are taken once, and in order: without Reuse they then are the
	// caller's alone.
	take(i int) Record
	// stored gives them all, in the order of the file.
	stored() []Record
	// reset makes the memory free for other rows.
	reset(overwrite bool)
}

// together is how many rows are made at a time when they are the caller's: who keeps one of them keeps as many.
const together = 16

// batchOf is a batch of one table. Its rows lie in memory in the order in which they are taken, not in that of the file:
// who reads a trace then goes through memory from one end to the other.
type batchOf[T any, P interface {
	*T
	Record
}] struct {
	seq    []int64
	all    []T   // with Reuse, by place in seq
	some   [][]T // without, together of them each
	places []*T  // by place in the file; nil for rows that are not wanted
	held   held
}

func (b *batchOf[T, P]) seqs() []int64 { return b.seq }

func (b *batchOf[T, P]) row(i int) *T {
	if b.some == nil {
		return &b.all[i]
	}
	return &b.some[i/together][i%together]
}

func (b *batchOf[T, P]) take(i int) Record {
	row := P(b.row(i))
	if b.some != nil { // a long group must not keep what was read
		b.places = nil
		if i%together == together-1 {
			b.some[i/together] = nil
		}
	}
	return row
}

func (b *batchOf[T, P]) stored() []Record {
	all := make([]Record, 0, len(b.seq))
	for _, row := range b.places {
		if row != nil {
			all = append(all, P(row))
		}
	}
	return all
}

func (b *batchOf[T, P]) reset(overwrite bool) {
	b.held.release(overwrite)
	clear(b.all)
}

// newRows makes a batch of n rows out of total.
func (s *spec[T, P]) newRows(r *reading, n, total int) *batchOf[T, P] {
	b := &batchOf[T, P]{}
	if r.reuse == nil {
		b.some = make([][]T, 0, (n+together-1)/together)
		for left := n; left > 0; left -= together {
			b.some = append(b.some, make([]T, min(left, together)))
		}
	} else {
		if spare := &r.spare[kindOf(s.table())]; len(*spare) > 0 {
			last := len(*spare) - 1
			b = (*spare)[last].(*batchOf[T, P])
			*spare = (*spare)[:last]
			clear(b.places)
		}
		b.all = slices.Grow(b.all[:0], n)[:n]
	}
	b.seq = slices.Grow(b.seq[:0], n)[:0]
	b.places = slices.Grow(b.places[:0], total)[:total]
	return b
}

// decode reads the rows of a row group that sel wants; nil if that is none. It reads column by column: a projection reads
// nothing of the others, and a text of a dictionary is made once.
func (s *spec[T, P]) decode(g parquet.RowGroup, sel *selection, r *reading) (batch, error) {
	// seq and ts first: they decide which rows are wanted, and texts of others are never made.
	if err := r.readHeads(g, s.parquet); err != nil {
		return nil, err
	}
	order := r.inOrder(sel)
	if len(order) == 0 {
		return nil, nil
	}
	b := s.newRows(r, len(order), len(r.heads))
	for i, place := range order {
		row := b.row(i)
		*P(row).Header() = r.heads[place]
		b.seq = append(b.seq, r.heads[place].Seq)
		b.places[place] = row
	}
	for _, c := range s.columns {
		if c.name == columnSeq || c.name == columnTS || !sel.column(c.name) {
			continue
		}
		if err := readColumn(g, s.parquet, c, b.places, r, &b.held); err != nil {
			return nil, err
		}
	}
	return b, nil
}

var headColumns = []column[Head]{
	flat(columnSeq, func(h *Head) any { return &h.Seq }),
	flat(columnTS, func(h *Head) any { return &h.TS }),
}

// readHeads reads where the rows of a group belong, in the order of the file.
func (r *reading) readHeads(g parquet.RowGroup, want *parquet.Schema) error {
	n := int(g.NumRows())
	if n > cap(r.heads) {
		r.heads, r.rows = make([]Head, n), make([]*Head, n)
	}
	r.heads, r.rows = r.heads[:n], r.rows[:n]
	clear(r.heads)
	for i := range r.heads {
		r.rows[i] = &r.heads[i]
	}
	for _, c := range headColumns {
		if err := readColumn(g, want, c, r.rows, r, nil); err != nil {
			return err
		}
	}
	return nil
}

// inOrder are the places in the file of the rows that sel wants, in the order of seq, those of one seq as they come.
func (r *reading) inOrder(sel *selection) []int32 {
	order := r.order[:0]
	sorted := true
	first, last := int64(math.MaxInt64), int64(math.MinInt64)
	for i := range r.heads {
		h := &r.heads[i]
		if !sel.row(h) {
			continue
		}
		order = append(order, int32(i))
		sorted = sorted && h.Seq >= last
		first, last = min(first, h.Seq), max(last, h.Seq)
	}
	r.order = order
	if !sorted && !r.spread(order, first, last) {
		slices.SortStableFunc(order, func(a, b int32) int { return cmp.Compare(r.heads[a].Seq, r.heads[b].Seq) })
	}
	return order
}

// spread sorts rows whose seqs lie near each other, as a writer's do, by putting each in its place; false where they
// don't, or where two have one seq.
func (r *reading) spread(order []int32, first, last int64) bool {
	if last-first < 0 || last-first >= 8*int64(len(order)) {
		return false
	}
	r.at = slices.Grow(r.at[:0], int(last-first+1))[:last-first+1]
	clear(r.at)
	for _, place := range order {
		p := &r.at[r.heads[place].Seq-first]
		if *p != 0 {
			return false
		}
		*p = place + 1
	}
	n := 0
	for _, p := range r.at {
		if p != 0 {
			order[n] = p - 1
			n++
		}
	}
	return true
}
