package traces

import (
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/parquet-go/parquet-go"
)

func event(i int64, object string) *WatchEvent {
	return &WatchEvent{
		Head:     Head{TS: 1_700_000_000_000_000_000 + i},
		Identity: Identity{Group: "apps", Version: "v1", Resource: "deployments", Namespace: "ns", Name: fmt.Sprint("web-", i%7), UID: fmt.Sprint("uid-", i%7), ResourceVersion: i},
		Stream:   "s", Process: "oprec", Type: string(Modified), Object: object,
	}
}

func TestSeqIsGivenInOrder(t *testing.T) {
	w, _ := mustCreate(t, WriterOptions{})
	defer w.Close()
	a, b, c := event(1, ""), event(2, ""), event(3, "")
	b.Seq = 10
	appendAll(t, w, a, b, c)
	if a.Seq != 1 || b.Seq != 10 || c.Seq != 11 || w.Seq() != 11 {
		t.Errorf("seqs %d, %d, %d, and Seq() = %d; want 1, 10, 11 and 11", a.Seq, b.Seq, c.Seq, w.Seq())
	}
	d := event(4, "")
	d.Seq = -1
	if err := w.Append(d); err == nil {
		t.Error("a negative seq was taken")
	}
}

func TestConcurrentAppend(t *testing.T) {
	const writers, each = 8, 500
	w, dir := mustCreate(t, WriterOptions{RowGroupRows: 64, RotateBytes: 16 << 10})
	var wg sync.WaitGroup
	for g := range int64(writers) {
		wg.Go(func() {
			for i := range int64(each) {
				rows := []Record{event(g*each+i, fmt.Sprintf(`{"n":%d}`, i)), &Log{Process: "op", Message: fmt.Sprint(g, i)}}
				for _, r := range rows {
					if err := w.Append(r); err != nil {
						t.Error(err)
					}
				}
			}
		})
	}
	wg.Wait()
	mustClose(t, w)
	tr := mustOpen(t, dir)
	want := int64(1)
	for _, r := range readAll(t, tr, Range{Columns: []string{"seq"}}) {
		if r.Header().Seq != want {
			t.Fatalf("seq %d, want %d", r.Header().Seq, want)
		}
		want++
	}
	if want != 2*writers*each+1 {
		t.Errorf("%d rows, want %d", want-1, 2*writers*each)
	}
	mustVerify(t, tr)
}

func mustVerify(t testing.TB, tr *Trace) {
	t.Helper()
	problems, err := tr.Verify(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range problems {
		t.Errorf("verify: %s: %s", p.File, p.Detail)
	}
}

func fileNames(m *Manifest, table Table) (names []string) {
	for _, f := range m.Files {
		if f.Table == table {
			names = append(names, f.Name)
		}
	}
	return names
}

func TestRotationBySize(t *testing.T) {
	w, dir := mustCreate(t, WriterOptions{RowGroupRows: 10, RotateBytes: 1})
	for i := range int64(35) {
		appendAll(t, w, event(i, `{}`))
	}
	mustClose(t, w)
	tr := mustOpen(t, dir)
	want := []string{"watch-0001.parquet", "watch-0002.parquet", "watch-0003.parquet", "watch-0004.parquet"}
	if got := fileNames(tr.Manifest(), TableWatch); !slices.Equal(got, want) {
		t.Errorf("files %v, want %v", got, want)
	}
	if f := tr.Manifest().Files[3]; f.Rows != 5 || f.FirstSeq != 31 || f.LastSeq != 35 {
		t.Errorf("the last file is %+v, want 5 rows with seq 31 to 35", f)
	}
	mustVerify(t, tr)
}

// A row stands in a finished file after RotateAge, though no other comes and nobody asks.
func TestRotationByAge(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "t.optrace")
	// Only the manifest is looked at in the bubble: the zstd library keeps its decoders for all.
	synctest.Test(t, func(t *testing.T) {
		w := mustCreateIn(t, dir, WriterOptions{RotateAge: time.Minute})
		rows := func() (n int64) {
			m := mustOpen(t, dir).Manifest()
			if m.Complete {
				t.Error("a trace that is still written is complete")
			}
			for _, f := range m.Files {
				n += f.Rows
			}
			return n
		}
		time.Sleep(59 * time.Second)
		appendAll(t, w, event(1, `{}`), &Log{Message: "hello"})
		synctest.Wait()
		if n := rows(); n != 0 {
			t.Errorf("%d rows before the age, want none", n)
		}
		time.Sleep(2 * time.Second)
		synctest.Wait()
		if n := rows(); n != 2 {
			t.Errorf("%d rows after the age, want 2", n)
		}
		time.Sleep(time.Hour)
		synctest.Wait()
		if n := len(mustOpen(t, dir).Manifest().Files); n != 2 {
			t.Errorf("%d files after an idle hour, want 2: one of watch and one of logs", n)
		}
		mustClose(t, w)
	})
	mustVerify(t, mustOpen(t, dir))
}

func TestRotateMakesRowsVisible(t *testing.T) {
	w, dir := mustCreate(t, WriterOptions{RotateAge: -1})
	defer w.Close()
	for i := range int64(3) {
		appendAll(t, w, oneOfEach(i)...)
		if err := w.Rotate(); err != nil {
			t.Fatal(err)
		}
		if n, want := len(readAll(t, mustOpen(t, dir), Range{})), len(kinds)*int(i+1); n != want {
			t.Errorf("%d rows visible, want %d", n, want)
		}
	}
}

func TestRowGroupsAreSorted(t *testing.T) {
	w, dir := mustCreate(t, WriterOptions{RowGroupRows: 100})
	for i := range int64(250) {
		appendAll(t, w, event(i*31%250, `{}`), &Request{Identity: event(i*17%250, "").Identity})
	}
	mustClose(t, w)
	for _, name := range []string{"watch-0001.parquet", "requests-0001.parquet"} {
		f, err := os.Open(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		info, _ := f.Stat()
		p, err := parquet.OpenFile(f, info.Size())
		if err != nil {
			t.Fatal(err)
		}
		if n := len(p.RowGroups()); n != 3 {
			t.Errorf("%s has %d row groups, want 3", name, n)
		}
		for _, g := range p.RowGroups() {
			if len(g.SortingColumns()) < 5 {
				t.Errorf("%s declares sorting by %v", name, g.SortingColumns())
			}
			type key struct {
				Name            string `parquet:"name"`
				ResourceVersion int64  `parquet:"resource_version"`
				Seq             int64  `parquet:"seq"`
			}
			rows := make([]key, g.NumRows())
			r := parquet.NewGenericRowGroupReader[key](g)
			if _, err := r.Read(rows); err != nil && !errors.Is(err, io.EOF) {
				t.Fatal(err)
			}
			sorted := slices.IsSortedFunc(rows, func(a, b key) int {
				if c := strings.Compare(a.Name, b.Name); c != 0 {
					return c
				}
				if strings.HasPrefix(name, "watch") {
					return int(a.ResourceVersion - b.ResourceVersion)
				}
				return int(a.Seq - b.Seq)
			})
			if !sorted {
				t.Errorf("%s: rows are not sorted by object: %v", name, rows)
			}
		}
	}
}

// Without rotation by age a trace depends on its records alone, byte for byte.
func TestSameRecordsSameBytes(t *testing.T) {
	write := func() string {
		w, dir := mustCreate(t, WriterOptions{RowGroupRows: 37, RotateBytes: 8 << 10, RotateAge: -1})
		for i := range int64(500) {
			appendAll(t, w, oneOfEach(i)...)
		}
		mustClose(t, w)
		return dir
	}
	a, b := write(), write()
	entries, err := os.ReadDir(a)
	if err != nil {
		t.Fatal(err)
	}
	if x, y := mustOpen(t, a).SHA256(), mustOpen(t, b).SHA256(); x != y || len(x) != 64 {
		t.Errorf("the traces are %s and %s", x, y)
	}
	if len(entries) < 2*len(kinds) {
		t.Errorf("only %d files: the test wants several of each table", len(entries))
	}
	for _, e := range entries {
		x, _ := os.ReadFile(filepath.Join(a, e.Name()))
		y, err := os.ReadFile(filepath.Join(b, e.Name()))
		if err != nil || string(x) != string(y) {
			t.Errorf("%s differs between two writers of the same records (%v)", e.Name(), err)
		}
	}
}

func TestModes(t *testing.T) {
	w, dir := mustCreate(t, WriterOptions{})
	appendAll(t, w, oneOfEach(1)...)
	mustClose(t, w)
	if info, _ := os.Stat(dir); info.Mode().Perm() != 0o700 {
		t.Errorf("the folder has mode %v, want 0700", info.Mode())
	}
	entries, _ := os.ReadDir(dir)
	for _, e := range entries {
		if info, _ := e.Info(); info.Mode().Perm() != 0o600 {
			t.Errorf("%s has mode %v, want 0600", e.Name(), info.Mode())
		}
	}
	if len(entries) != len(kinds)+1 {
		t.Errorf("%d files, want the manifest and one for each table", len(entries))
	}
}

func TestCreateRefusesAFolderInUse(t *testing.T) {
	dir := t.TempDir()
	if w, err := Create(dir, Manifest{}, WriterOptions{}); err != nil {
		t.Errorf("an empty folder was refused: %v", err)
	} else if err := w.Close(); err != nil {
		t.Error(err)
	}
	file := filepath.Join(dir, ManifestName)
	for _, path := range []string{dir, file, filepath.Join(file, "below")} {
		_, err := Create(path, Manifest{}, WriterOptions{})
		var bad *FormatError
		if !errors.As(err, &bad) || bad.Path != path || strings.Contains(err.Error(), "\n") {
			t.Errorf("Create(%s) = %v, want a FormatError of that path in one line", path, err)
		}
	}
}

func TestUpdateAndLose(t *testing.T) {
	w, dir := mustCreate(t, WriterOptions{})
	w.Lose(Loss{Source: "watch", Count: 3, Reason: "relist"})
	err := w.Update(func(m *Manifest) {
		m.Cluster.Version = "v1.37.2"
		m.Complete, m.Files, m.Format = true, []File{{Name: "x"}}, Format{Major: 9}
	})
	if err != nil {
		t.Fatal(err)
	}
	m := mustOpen(t, dir).Manifest()
	if m.Cluster.Version != "v1.37.2" || len(m.Losses) != 1 || m.Losses[0].Count != 3 {
		t.Errorf("the manifest on disk is %+v", m)
	}
	if m.Complete || len(m.Files) != 0 || m.Format.Major != FormatMajor {
		t.Errorf("Update changed what is the Writer's own: %+v", m)
	}
	mustClose(t, w)
	mustClose(t, w)
	if err := w.Append(event(1, "")); err == nil {
		t.Error("append after close succeeded")
	}
}

func TestLossesAreBounded(t *testing.T) {
	w, dir := mustCreate(t, WriterOptions{})
	const n = 3 * maxLosses
	for range n {
		w.Lose(Loss{Source: "watch", Count: 1, Reason: "cut"})
	}
	mustClose(t, w)
	var sum int64
	losses := mustOpen(t, dir).Manifest().Losses
	for _, l := range losses {
		sum += l.Count
	}
	if len(losses) != maxLosses || sum != n {
		t.Errorf("%d losses that add up to %d, want %d and %d", len(losses), sum, maxLosses, n)
	}
}

// Parquet's strings are UTF-8, and other readers refuse a file that breaks it.
func TestTextsAreMadeUTF8(t *testing.T) {
	w, dir := mustCreate(t, WriterOptions{})
	appendAll(t, w,
		&Log{Message: "a\xffb"},
		&Stack{Frames: []Frame{{Function: "f\xfe"}}},
		&WatchEvent{Type: string(Added), Object: "\"\xff\""},
	)
	mustClose(t, w)
	tr := mustOpen(t, dir)
	rows := readAll(t, tr, Range{})
	if m := rows[0].(*Log).Message; m != "a\uFFFDb" {
		t.Errorf("message %q", m)
	}
	if f := rows[1].(*Stack).Frames[0].Function; f != "f\uFFFD" {
		t.Errorf("function %q", f)
	}
	mustVerify(t, tr)
}

// stuckDisk blocks every write of a Parquet file until it is let go.
type stuckDisk struct {
	output
	letGo chan struct{}
}

func (d *stuckDisk) Write(p []byte) (int, error) {
	<-d.letGo
	return d.output.Write(p)
}

// A disk that does not keep up makes Append wait: what is in memory is bounded, and nothing is lost.
func TestAppendWaitsForTheDisk(t *testing.T) {
	const group, total = 10, 200
	dir := filepath.Join(t.TempDir(), "t.optrace")
	synctest.Test(t, func(t *testing.T) {
		letGo := make(chan struct{})
		create := func(path string) (output, error) {
			out, err := createFile(path)
			if strings.Contains(path, "manifest") {
				return out, err
			}
			return &stuckDisk{out, letGo}, err
		}
		random := rand.New(rand.NewPCG(1, 2))
		noise := func() string { // does not compress below the file's buffer
			b := make([]byte, 40<<10)
			for i := range b {
				b[i] = byte(random.Uint32())
			}
			return `"` + hex.EncodeToString(b) + `"`
		}
		w := mustCreateIn(t, dir, WriterOptions{RowGroupRows: group, create: create})
		var appended atomic.Int64
		done := make(chan struct{})
		go func() {
			defer close(done)
			for i := range int64(total) {
				if err := w.Append(event(i, noise())); err != nil {
					t.Error(err)
				}
				appended.Add(1)
			}
		}()
		synctest.Wait()
		// One group in the encoder, one in the queue, one in the buffer.
		if n := appended.Load(); n > 3*group {
			t.Errorf("%d rows were taken while the disk stood still, want at most %d", n, 3*group)
		}
		close(letGo)
		<-done
		mustClose(t, w)
	})
	if n := len(readAll(t, mustOpen(t, dir), Range{})); n != total {
		t.Errorf("%d rows, want %d", n, total)
	}
}
