package traces

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"unsafe"

	gocmp "github.com/google/go-cmp/cmp"
)

// manyGroup is how many rows a row group of manyRows has.
const manyGroup = 2*fewTexts + 60

// manyRows is a trace whose row groups are read one after the other, with dictionaries small and large, equal and empty
// texts, and lists; and its rows.
func manyRows(t *testing.T, n int64) (*Trace, []Record) {
	t.Helper()
	w, dir := mustCreate(t, WriterOptions{RowGroupRows: manyGroup, RotateBytes: 64 << 10, RotateAge: -1})
	var all []Record
	for i := range n {
		rows := oneOfEach(i)
		again := *rows[0].(*WatchEvent)
		again.Stream, again.Process, again.Writer = "s2", "oprec", ""
		rows = append(rows, &again)
		if i%7 < 3 { // a row that lacks what others have, and lies where one of them lay
			h := Head{TS: again.TS}
			rows = append(rows, &WatchEvent{Head: h}, &Request{Head: h}, &Metric{Head: h}, &Stack{Head: h}, &Sample{Head: h})
		}
		appendAll(t, w, rows...)
		all = append(all, rows...)
	}
	mustClose(t, w)
	return mustOpen(t, dir), all
}

// inTurn reads everything with Reuse, and calls late with each row when lag others were read after it. What late was
// called with is used up.
func inTurn(t *testing.T, tr *Trace, reuse *Reuse, lag int, late func(i int, r Record)) {
	t.Helper()
	var waiting []Record
	n := 0
	end := func() {
		late(n, waiting[0])
		reuse.Done(waiting[0].Header().Seq)
		waiting = waiting[1:]
		n++
	}
	for r, err := range tr.Records(t.Context(), Range{Reuse: reuse}) {
		if err != nil {
			t.Fatal(err)
		}
		if waiting = append(waiting, r); len(waiting) > lag {
			end()
		}
	}
	for len(waiting) > 0 {
		end()
	}
}

// A row is what it is until Done, however far behind that is.
func TestReuseKeepsWhatIsInUse(t *testing.T) {
	near, nearRows := manyRows(t, 1200/int64(min(patience, 4)))
	far, farRows := scattered(t, 3, 1000)
	reuse := &Reuse{Overwrite: true} // also read after read
	for _, c := range []struct {
		trace *Trace
		want  []Record
	}{{near, nearRows}, {far, farRows}} {
		for _, lag := range []int{0, 1, 100, 5000} {
			n := 0
			inTurn(t, c.trace, reuse, lag, func(i int, r Record) {
				if diff := gocmp.Diff(c.want[i], r); diff != "" {
					t.Fatalf("row %d, %d behind (-want +got):\n%s", i, lag, diff)
				}
				n++
			})
			if n != len(c.want) {
				t.Errorf("%d rows of %d", n, len(c.want))
			}
		}
	}
}

// What is done is used again: its rows' memory holds others, and its texts are overwritten where that was asked for.
func TestReuseUsesAgain(t *testing.T) {
	tr, all := manyRows(t, 3000)
	rows := map[Record]int{}
	var first *WatchEvent
	var object, uid, process string
	inTurn(t, tr, &Reuse{Overwrite: true}, 10, func(_ int, r Record) {
		rows[r]++
		if w, ok := r.(*WatchEvent); ok && first == nil {
			first, object, uid, process = w, w.Object, w.UID, w.Process
		}
	})
	if len(rows) > len(all)/2 {
		t.Errorf("%d rows lay in %d places", len(all), len(rows))
	}
	for what, text := range map[string]string{"object": object, "uid": uid} {
		if text != strings.Repeat("\xff", len(text)) {
			t.Errorf("the first row's %s was used up long ago, and it still reads %q", what, text)
		}
	}
	if process != "op" {
		t.Errorf("a text that is one string for all rows reads %q once its row was used up", process)
	}
}

// Of rows with one Seq, as a damaged trace has them, the later may be in use when the first is done.
func TestReuseKeepsRowsOfOneSeq(t *testing.T) {
	m := newReading(&Reuse{})
	for range 2 {
		m.over(kindOf(TableWatch), &batchOf[WatchEvent, *WatchEvent]{seq: []int64{4, 5}})
	}
	for _, c := range []struct {
		done int64
		kept int
	}{{5, 2}, {6, 0}} {
		m.reuse.Done(c.done)
		if m.reclaim(); len(m.used) != c.kept {
			t.Errorf("with %d done, %d row groups that end with seq 5 are kept and not %d", c.done, len(m.used), c.kept)
		}
	}
}

// Nothing is used again before Done says so, and nothing of a read without Reuse ever is.
func TestNothingIsUsedAgainWithoutDone(t *testing.T) {
	tr, want := manyRows(t, 1500)
	for name, reuse := range map[string]*Reuse{"no Reuse": nil, "no Done": {Overwrite: true}} {
		if diff := gocmp.Diff(want, readAll(t, tr, Range{Reuse: reuse})); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
	m := newMerge(t.Context(), tr, &Range{Reuse: &Reuse{}})
	defer m.close()
	for {
		rec, err := m.next()
		if err != nil {
			t.Fatal(err)
		}
		if rec == nil {
			break
		}
		if len(m.used) > maxUsed {
			t.Fatalf("%d row groups wait for Done", len(m.used))
		}
	}
}

// Done may be called by whoever takes rows from the goroutine that reads.
func TestReuseFromAnotherGoroutine(t *testing.T) {
	tr, want := manyRows(t, 1000/int64(min(patience, 4)))
	reuse := &Reuse{Overwrite: true}
	batches := make(chan []Record, 2)
	go func() {
		defer close(batches)
		var some []Record
		for r, err := range tr.Records(t.Context(), Range{Reuse: reuse}) {
			if err != nil {
				t.Error(err)
				return
			}
			if some = append(some, r); len(some) == 64 {
				batches <- some
				some = nil
			}
		}
		batches <- some
	}()
	n := 0
	for some := range batches {
		for _, r := range some {
			if diff := gocmp.Diff(want[n], r); diff != "" {
				t.Fatalf("row %d (-want +got):\n%s", n, diff)
			}
			n++
		}
		if len(some) > 0 {
			reuse.Done(some[len(some)-1].Header().Seq)
		}
	}
	if n != len(want) {
		t.Errorf("%d rows of %d", n, len(want))
	}
}

// Texts that many rows have are one string in all of them: who compares them need not look at their bytes.
func TestTextsAreShared(t *testing.T) {
	tr, _ := manyRows(t, 1000)
	for name, reuse := range map[string]*Reuse{"no Reuse": nil, "Reuse": {}} {
		at := map[string]*byte{}
		same := func(text string) {
			t.Helper()
			p := unsafe.StringData(text)
			if at[text] == nil {
				at[text] = p
			}
			if at[text] != p {
				t.Fatalf("%s: %q lies in two places", name, text)
			}
		}
		var last *WatchEvent
		var events, apart int
		for r, err := range tr.Records(t.Context(), Range{Reuse: reuse}) {
			if err != nil {
				t.Fatal(err)
			}
			switch r := r.(type) {
			case *WatchEvent:
				same(r.Process)
				same(r.Resource)
				same(r.Namespace)
				if last != nil && last.Object == r.Object && unsafe.StringData(last.Object) != unsafe.StringData(r.Object) {
					apart++
				}
				events, last = events+1, r
			case *Request:
				same(r.Process)
				same(r.Resource)
			case *Log:
				same(r.Process)
			}
		}
		if apart > events/manyGroup { // where the one ends a row group and the other begins the next
			t.Errorf("%s: %d neighbours have an object each that is the same", name, apart)
		}
		if len(at) < 4 {
			t.Errorf("%s: only %d texts", name, len(at))
		}
	}
}

// A page whose lengths point out of it, or back, is refused, and so is one that has not as many values as it says.
func TestPagesThatPointOutOfThemselves(t *testing.T) {
	const text = "onetwothree"
	for name, c := range map[string]struct {
		offsets []uint32
		want    string
	}{
		"good":      {[]uint32{0, 3, 6, 11}, ""},
		"gaps":      {[]uint32{2, 3, 3, 9}, ""},
		"too long":  {[]uint32{0, 3, 6, 12}, "outside of its page: from byte 6 to 12 of 11"},
		"backwards": {[]uint32{0, 6, 3, 11}, "outside of its page: from byte 6 to 3 of 11"},
		"overflow":  {[]uint32{0, 3, 1<<32 - 1, 4}, "outside of its page"},
		"too few":   {[]uint32{0, 3, 6}, "a page holds 2 values and says 3"},
		"none":      {nil, "a page holds -1 values and says 3"},
	} {
		for _, reuse := range []*Reuse{nil, {}} {
			rows := []*Log{{}, {}, {}}
			r := &columnReader[Log]{reading: newReading(reuse), held: &held{}}
			r.kind, r.offset = placeOf(flat("message", func(l *Log) any { return &l.Message }))
			bytes := append(make([]byte, 0, 64), text...) // there is memory behind it, which is none of the page's
			_, err := r.plainTexts(nil, rows, bytes, c.offsets)
			switch {
			case c.want == "" && err != nil:
				t.Errorf("%s: %v", name, err)
			case c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)):
				t.Errorf("%s: error %v, want %q", name, err, c.want)
			case c.want == "" && (rows[0].Message != text[c.offsets[0]:c.offsets[1]] || rows[2].Message != text[c.offsets[2]:c.offsets[3]]):
				t.Errorf("%s: %+v", name, rows)
			}
		}
	}
	if err := set([]*Log{{}, {}}, 0, []int64{1}); err == nil {
		t.Error("a page with a number too few is read")
	}
}

// A column's place in a row is where its own function says.
func TestPlaceOf(t *testing.T) {
	for _, k := range kinds {
		k.(interface{ checkPlaces(*testing.T) }).checkPlaces(t)
	}
}

func (s *spec[T, P]) checkPlaces(t *testing.T) {
	for _, c := range s.columns {
		if c.list {
			continue
		}
		row := new(T)
		var at any
		switch kind, offset := placeOf(c); kind.(type) {
		case *string:
			at = field[string](row, offset)
		case *int64:
			at = field[int64](row, offset)
		case *int32:
			at = field[int32](row, offset)
		case *float64:
			at = field[float64](row, offset)
		case *bool:
			at = field[bool](row, offset)
		}
		if at != c.at(row, 0) {
			t.Errorf("%s.%s lies elsewhere", s.table(), c.name)
		}
	}
}

// A damaged file is the same error with Reuse.
func TestReuseOfDamagedFiles(t *testing.T) {
	tr, _ := manyRows(t, 600)
	for _, f := range tr.Manifest().Files[:2] {
		path := tr.path(f.Name)
		whole := mustReadFile(t, path)
		flipped := append([]byte(nil), whole...)
		flipped[len(flipped)/3] ^= 1
		mustWriteFile(t, path, flipped)
		tr.trusted[f.Name] = nil // the pages' own checksums are the second line
		var errs []error
		for _, reuse := range []*Reuse{nil, {}} {
			var last error
			for r, err := range tr.Records(t.Context(), Range{Reuse: reuse}) {
				if last = err; err == nil && reuse != nil {
					reuse.Done(r.Header().Seq)
				}
			}
			errs = append(errs, last)
			isClear(t, last, path)
		}
		if !errors.Is(errs[0], errs[1]) && fmt.Sprint(errs[0]) != fmt.Sprint(errs[1]) {
			t.Errorf("%v\nbut with Reuse\n%v", errs[0], errs[1])
		}
		mustWriteFile(t, path, whole)
	}
}
