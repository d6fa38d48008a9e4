package traces

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
)

// scattered is a trace whose callers gave the seqs themselves, out of order, so that row groups and
// files overlap in every way.
func scattered(t *testing.T, seed uint64, n int) (*Trace, []Record) {
	t.Helper()
	random := rand.New(rand.NewPCG(seed, 0))
	w, dir := mustCreate(t, WriterOptions{RowGroupRows: 1 + random.IntN(20), RotateBytes: 1 + random.Int64N(20_000), RotateAge: -1})
	seqs := random.Perm(n)
	// Nearly in order: each may stand up to reach places from where it belongs.
	reach := 1 + random.IntN(n)
	slices.SortFunc(seqs, func(a, b int) int { return a/reach - b/reach })
	var all []Record
	for i, seq := range seqs {
		rows := oneOfEach(int64(i))
		r := rows[random.IntN(len(rows))]
		if r, ok := r.(*Request); ok {
			r.StartSeq = int64(seq)
		}
		r.Header().Seq = int64(seq) + 1
		r.Header().TS = 1_000_000 + int64(seq)*10 + random.Int64N(100)
		appendAll(t, w, r)
		all = append(all, r)
	}
	mustClose(t, w)
	slices.SortFunc(all, func(a, b Record) int { return int(a.Header().Seq - b.Header().Seq) })
	return mustOpen(t, dir), all
}

// Reading by ranges gives what reading everything and filtering gives.
func TestRangesAgainstReadingEverything(t *testing.T) {
	const n = 300
	for seed := range uint64(8 / min(patience, 4)) {
		tr, all := scattered(t, seed, n)
		if seed == 0 {
			mustVerify(t, tr)
		}
		random := rand.New(rand.NewPCG(seed, 1))
		for range 15 {
			var r Range
			if random.IntN(2) == 0 {
				r.FromSeq = random.Int64N(n)
				r.ToSeq = r.FromSeq + random.Int64N(n)
			}
			if random.IntN(2) == 0 {
				r.FromTS = 1_000_000 + random.Int64N(n*10)
				r.ToTS = r.FromTS + random.Int64N(n*10)
			}
			if random.IntN(2) == 0 {
				r.Tables = Tables()[random.IntN(len(kinds)):]
			}
			var want []Record
			for _, rec := range all {
				h := rec.Header()
				if h.Seq >= r.FromSeq && (r.ToSeq == 0 || h.Seq <= r.ToSeq) && h.TS >= r.FromTS && (r.ToTS == 0 || h.TS <= r.ToTS) &&
					(r.Tables == nil || slices.Contains(r.Tables, rec.Table())) {
					want = append(want, rec)
				}
			}
			if diff := gocmp.Diff(want, readAll(t, tr, r)); diff != "" {
				t.Fatalf("seed %d, range %+v (-filtered +read):\n%s", seed, r, diff)
			}
		}
	}
}

func TestRowsOfOneTable(t *testing.T) {
	tr, all := scattered(t, 1, 200)
	var want, got []*Stack
	for _, r := range all {
		if s, ok := r.(*Stack); ok {
			want = append(want, s)
		}
	}
	for s, err := range Rows[Stack](t.Context(), tr, Range{Tables: []Table{TableLogs}}) {
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, s)
	}
	if diff := gocmp.Diff(want, got); diff != "" || len(want) == 0 {
		t.Errorf("(-want +got):\n%s", diff)
	}
	for _, err := range Rows[string](t.Context(), tr, Range{}) {
		if err == nil {
			t.Error("rows of no table were read")
		}
	}
}

func TestProjection(t *testing.T) {
	w, dir := mustCreate(t, WriterOptions{})
	appendAll(t, w, oneOfEach(3)...)
	mustClose(t, w)
	tr := mustOpen(t, dir)
	rows := readAll(t, tr, Range{Tables: []Table{TableWatch}, Columns: []string{"name", "resource_version"}})
	full := oneOfEach(3)[0].(*WatchEvent)
	want := &WatchEvent{Head: Head{Seq: 1, TS: full.TS}, Identity: Identity{Name: full.Name, ResourceVersion: full.ResourceVersion}}
	if diff := gocmp.Diff([]Record{want}, rows); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	rows = readAll(t, tr, Range{Tables: []Table{TableStacks}, Columns: []string{"frames"}})
	if s := rows[0].(*Stack); len(s.Frames) != 2 || s.Frames[0].Function != "main.main" || s.StackID != 0 {
		t.Errorf("projection of a list gives %+v", s)
	}
	rows = readAll(t, tr, Range{Tables: []Table{TableWatch}, Omit: []string{"object", "object_hash", "name", "audit_id"}})
	left := *full
	left.Seq, left.Object, left.Name = 1, "", ""
	if diff := gocmp.Diff([]Record{&left}, rows); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	for _, r := range []Range{
		{Columns: []string{"no_such"}},
		{Omit: []string{"no_such"}},
		{Tables: []Table{TableLogs}, Columns: []string{"object"}},
		{Tables: []Table{"no_such"}},
	} {
		n := 0
		for rec, err := range tr.Records(t.Context(), r) {
			if n++; err == nil || rec != nil {
				t.Errorf("%+v yields %v, %v; want an error", r, rec, err)
			}
		}
		if n != 1 {
			t.Errorf("%+v yields %d times, want once", r, n)
		}
	}
}

func TestListsMayBeEmpty(t *testing.T) {
	w, dir := mustCreate(t, WriterOptions{})
	want := []Record{
		&Metric{Name: "none"},
		&Metric{Name: "one", Labels: []Label{{Name: "a"}}},
		&Metric{Name: "none"},
		&Metric{Name: "many", Labels: slices.Repeat([]Label{{Name: "x", Value: "y"}}, 300)},
		&Metric{Name: "none"},
	}
	appendAll(t, w, want...)
	mustClose(t, w)
	if diff := gocmp.Diff(want, readAll(t, mustOpen(t, dir), Range{})); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// Numbers come back bit by bit: −0.0 is another number than 0.0.
func TestNumbersAsTheyWere(t *testing.T) {
	w, dir := mustCreate(t, WriterOptions{})
	want := []float64{math.Copysign(0, -1), 0, 1.5, math.Inf(-1), math.NaN(), math.SmallestNonzeroFloat64}
	for _, v := range want {
		appendAll(t, w, &Metric{Name: "n", Value: v})
	}
	mustClose(t, w)
	for i, r := range readAll(t, mustOpen(t, dir), Range{}) {
		if got := r.(*Metric).Value; math.Float64bits(got) != math.Float64bits(want[i]) {
			t.Errorf("%v came back as %v", want[i], got)
		}
	}
}

func TestReadingStops(t *testing.T) {
	tr, _ := scattered(t, 2, 100)
	n := 0
	for _, err := range tr.Records(t.Context(), Range{}) {
		if err != nil {
			t.Fatal(err)
		}
		if n++; n == 10 {
			break
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	n = 0
	for _, err := range tr.Records(ctx, Range{}) {
		n++
		if n == 5 {
			cancel()
		}
		if n == 6 && !errors.Is(err, context.Canceled) {
			t.Errorf("after the cancellation: %v", err)
		}
	}
	if n != 6 {
		t.Errorf("%d yields, want 5 rows and the error", n)
	}
}

// A read keeps what overlaps in memory and no more, and no file open longer than it needs it.
func TestReadingIsBounded(t *testing.T) {
	const group = 10
	w, dir := mustCreate(t, WriterOptions{RowGroupRows: group, RotateBytes: 8 << 10})
	for i := range int64(2000) {
		appendAll(t, w, event(i, fmt.Sprintf(`{"n":%d}`, i)), &Log{Message: "m"})
	}
	mustClose(t, w)
	tr := mustOpen(t, dir)
	if n := len(tr.Manifest().Files); n < 10 {
		t.Fatalf("only %d files", n)
	}
	m := newMerge(t.Context(), tr, &Range{})
	defer m.close()
	for {
		rec, err := m.next()
		if err != nil {
			t.Fatal(err)
		}
		if rec == nil {
			break
		}
		held := 0
		for _, r := range m.runs {
			held += len(r.seqs) - r.next
		}
		if held > 2*2*group || len(m.users) > 2*2 {
			t.Fatalf("at seq %d %d rows are in memory and %d files open, of two tables with row groups of %d", rec.Header().Seq, held, len(m.users), group)
		}
	}
	if len(m.users) != 0 {
		t.Errorf("%d files are still open at the end", len(m.users))
	}
}

// Rows come in order whether their seqs lie near each other, far apart or together.
func TestInOrder(t *testing.T) {
	r := newReading(nil)
	for name, seqs := range map[string][]int64{
		"near": {7, 3, 5, 1, 9}, "far": {1 << 40, 3, -5, math.MaxInt64, math.MinInt64}, "together": {4, 2, 4, 1, 2, 4}, "in order": {1, 1, 2}, "one": {3}, "none": nil,
	} {
		var want []int32
		r.heads = nil
		for i, seq := range seqs {
			r.heads = append(r.heads, Head{Seq: seq})
			want = append(want, int32(i))
		}
		slices.SortStableFunc(want, func(a, b int32) int { return cmp.Compare(seqs[a], seqs[b]) })
		all := (&Range{FromSeq: math.MinInt64}).selection()
		if got := r.inOrder(all); !slices.Equal(got, want) {
			t.Errorf("%s: %v, want %v", name, got, want)
		}
	}
}

// Rows that come too late are an error: who reads may have used up those of that time.
func TestRecordsOutOfOrder(t *testing.T) {
	w, dir := mustCreate(t, WriterOptions{RowGroupRows: 5, RotateBytes: 1, RotateAge: -1})
	for i := range int64(20) {
		appendAll(t, w, event(i, `{}`))
	}
	mustClose(t, w)
	tr := mustOpen(t, dir)
	tr.manifest.Files[0].FirstSeq = tr.manifest.Files[1].FirstSeq + 1 // which its rows are not
	var err error
	n := 0
	for _, e := range tr.Records(t.Context(), Range{}) {
		err = e
		n++
	}
	if _, damaged := errors.AsType[*FormatError](err); !damaged || !strings.Contains(err.Error(), "comes after") || n < 2 {
		t.Errorf("%d rows, %v", n, err)
	}
}
