package traces

import (
	"math"
	"slices"
	"sync/atomic"

	"github.com/parquet-go/parquet-go"
)

// Reuse lets one read use the memory of its rows again, which makes it a third cheaper: texts are not copied out of the
// file's pages, and little is left to the garbage collector. Give it as Range.Reuse, and say with Done what is used up:
//
//	reuse := &traces.Reuse{}
//	for r, err := range t.Records(ctx, traces.Range{Reuse: reuse}) {
//		…
//		reuse.Done(r.Header().Seq) // nothing of rows before r is used any more
//	}
//
// A row, its lists and each text of it are valid until Done was called with a higher Seq than its own: in a damaged
// trace others may have the same. From then on they may change at any time, and a text that was kept is wrong without a
// word: clone (strings.Clone) before Done what must stay. Without a call of Done everything stays valid and nothing is
// used again; Done at every few hundred rows will do, and a read that is more than a few row groups ahead of Done
// leaves the oldest to the garbage collector. A Reuse is for one read at a time.
type Reuse struct {
	// Overwrite is for tests of who reads: rows that are used up become zero, and their texts as many bytes of 0xff, but
	// for those that are one string for all rows. What reads them all the same then shows.
	Overwrite bool

	done atomic.Int64
}

// Done says that rows with a lower Seq are used up; a read begins with none. It may be called by another goroutine than
// the one that reads.
func (u *Reuse) Done(seq int64) { u.done.Store(seq) }

// Bounds of what a read keeps.
const (
	// maxUsed is how many row groups wait for Done; what is beyond is left to the garbage collector.
	maxUsed = 8
	// maxSpare is how many row groups' memory of one table waits for rows.
	maxSpare = 2
	// maxTexts bounds the texts that are the same for all rows, and maxTextLen their bytes.
	maxTexts   = 1 << 12
	maxTextLen = 256
	// fewTexts is the size of a dictionary whose texts are likely those of others.
	fewTexts = 128
)

// reading is what one read keeps from row group to row group.
type reading struct {
	reuse *Reuse // nil: rows are the caller's for good
	used  []used // with reuse: read to their end, and perhaps still in use
	spare [][]batch
	texts map[string]string

	// What only decode sees.
	heads []Head
	rows  []*Head
	order []int32
	at    []int32
	dict  []string
}

type used struct {
	kind int
	last int64 // Seq
	batch
}

func newReading(reuse *Reuse) *reading {
	if reuse != nil {
		reuse.done.Store(math.MinInt64) // what was done in another read is nothing to this one
	}
	return &reading{reuse: reuse, spare: make([][]batch, len(kinds)), texts: map[string]string{}}
}

// over takes a row group that was read to its end.
func (r *reading) over(kind int, b batch) {
	if r.reuse == nil {
		return
	}
	if len(r.used) == maxUsed {
		r.reclaim()
	}
	if len(r.used) == maxUsed {
		r.used = slices.Delete(r.used, 0, 1)
	}
	seqs := b.seqs()
	r.used = append(r.used, used{kind, seqs[len(seqs)-1], b})
}

// reclaim finds what is used up.
func (r *reading) reclaim() {
	if len(r.used) == 0 {
		return
	}
	done := r.reuse.done.Load()
	keep := r.used[:0]
	for _, u := range r.used {
		if u.last >= done { // of rows with one seq another may follow
			keep = append(keep, u)
			continue
		}
		u.reset(r.reuse.Overwrite)
		if len(r.spare[u.kind]) < maxSpare {
			r.spare[u.kind] = append(r.spare[u.kind], u.batch)
		}
	}
	clear(r.used[len(keep):])
	r.used = keep
}

// text is a text of a small dictionary: the same string for all rows of a read, whatever their file and table. So it is
// found equal without a look at its bytes.
func (r *reading) text(b []byte) string {
	t, ok := r.texts[string(b)]
	if !ok {
		t = string(b)
		if len(r.texts) < maxTexts && len(t) <= maxTextLen {
			r.texts[t] = t
		}
	}
	return t
}

// held is the memory that the texts of a batch lie in.
type held struct {
	pages []parquet.Page
	bytes [][]byte
}

func (h *held) release(overwrite bool) {
	if overwrite { // and left to the garbage collector, or others' texts might stand there instead
		for _, b := range h.bytes {
			for i := range b {
				b[i] = 0xff
			}
		}
	} else {
		for _, p := range h.pages {
			parquet.Release(p)
		}
	}
	clear(h.pages)
	clear(h.bytes)
	h.pages, h.bytes = h.pages[:0], h.bytes[:0]
}
