package traces

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// childFolder in the environment has the test binary write a trace there until it is killed.
const childFolder = "TRACES_TEST_CHILD"

func TestMain(m *testing.M) {
	if dir := os.Getenv(childFolder); dir != "" {
		writeUntilKilled(dir)
	}
	os.Exit(m.Run())
}

// writeUntilKilled tells on standard output, again and again, how many rows are promised to be on the disk.
func writeUntilKilled(dir string) {
	w, err := Create(dir, Manifest{Source: "capture"}, WriterOptions{RowGroupRows: 500, RotateBytes: 64 << 10, RotateAge: 300 * time.Millisecond, Journal: 10 * time.Millisecond})
	for i := int64(0); err == nil; i++ {
		for _, r := range append(oneOfEach(i), event(i, body(i)), answer(i, body(i))) {
			if err == nil {
				err = w.Append(r)
			}
		}
		w.journal.mu.Lock()
		synced := w.journal.synced
		w.journal.mu.Unlock()
		fmt.Println(synced)
		time.Sleep(time.Millisecond) // so that moments between syncs are moments of work
	}
	fmt.Fprintln(os.Stderr, err)
	os.Exit(1)
}

// killed is a trace whose writer was killed a time after it began, and how many rows were promised.
func killed(t *testing.T, after time.Duration) (dir string, promised int64) {
	t.Helper()
	dir = filepath.Join(t.TempDir(), "t.optrace")
	child := exec.Command(os.Args[0])
	child.Env = append(os.Environ(), childFolder+"="+dir)
	child.Stderr = os.Stderr
	out, err := child.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	var began sync.Once // with the first line: by then there is a trace
	for lines := bufio.NewScanner(out); lines.Scan(); {
		began.Do(func() { time.AfterFunc(after, func() { _ = child.Process.Signal(syscall.SIGKILL) }) })
		if n, err := strconv.ParseInt(lines.Text(), 10, 64); err == nil { // the last line may be cut off
			promised = max(promised, n)
		}
	}
	_ = child.Wait()
	return dir, promised
}

// A recorder that is killed at whatever moment has lost no row that was synced, and says that something is missing.
func TestRepairAfterSIGKILL(t *testing.T) {
	for i := range 6 {
		after := 50*time.Millisecond + time.Duration(rand.Int64N(int64(1500*time.Millisecond)))
		t.Run(fmt.Sprint(i, " after ", after), func(t *testing.T) {
			dir, promised := killed(t, after)
			if _, err := os.Stat(filepath.Join(dir, ManifestName)); err != nil {
				t.Fatal(err)
			}
			done, err := Repair(t.Context(), dir)
			if err != nil {
				t.Fatal(err)
			}
			tr := mustOpen(t, dir)
			if problems, err := tr.Verify(t.Context()); err != nil || len(problems) > 0 {
				t.Errorf("verify: %v, %v", problems, err)
			}
			all := readAll(t, tr, Range{})
			if int64(len(all)) < promised {
				t.Errorf("%d rows, and %d were promised", len(all), promised)
			}
			for i, r := range all { // none is missing in between
				if r.Header().Seq != int64(i)+1 {
					t.Fatalf("row %d has seq %d", i, r.Header().Seq)
				}
			}
			m := tr.Manifest()
			if !m.Complete || len(m.Losses) != 1 || !strings.Contains(m.Losses[0].Reason, "killed") {
				t.Errorf("complete: %t, losses %+v", m.Complete, m.Losses)
			}
			t.Logf("%d rows, %d promised, %d of them from the journal; %d bytes torn", len(all), promised, done.Rows, done.Torn)
			if again, err := Repair(t.Context(), dir); err != nil || !again.Untouched {
				t.Errorf("once more: %+v, %v", again, err)
			}
		})
	}
}

// abandoned is a trace whose writer vanished when all was synced, with files of which the manifest knows and others.
func abandoned(t *testing.T) (dir string, rows []Record) {
	t.Helper()
	live := filepath.Join(t.TempDir(), "live.optrace")
	w, err := Create(live, Manifest{}, WriterOptions{RowGroupRows: 10, RotateAge: -1, Journal: time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = w.Close() })
	add := func(i int64) {
		for _, r := range append(oneOfEach(i), event(i, body(i)), answer(i, body(i))) {
			if err := w.Append(r); err != nil {
				t.Fatal(err)
			}
			rows = append(rows, r)
		}
	}
	for i := range int64(20) {
		add(i)
	}
	if err := w.Rotate(); err != nil {
		t.Fatal(err)
	}
	for i := range int64(20) {
		add(20 + i)
	}
	for {
		w.journal.mu.Lock()
		synced := w.journal.synced
		w.journal.mu.Unlock()
		if synced == int64(len(rows)) {
			break
		}
		<-time.After(time.Millisecond)
	}
	if _, err := Repair(t.Context(), live); err == nil {
		t.Error("a trace that is still being written is repaired")
	} else {
		isClear(t, err, live)
	}
	dir = filepath.Join(t.TempDir(), "t[1].optrace") // a pattern, to who takes it for one
	if err := os.CopyFS(dir, os.DirFS(live)); err != nil {
		t.Fatal(err)
	}
	return dir, rows
}

// Every row of every table comes back as it was, whatever of it stood in files already.
func TestRepairBringsAllBack(t *testing.T) {
	dir, _ := abandoned(t)
	whole := filepath.Join(t.TempDir(), "whole")
	w, err := Create(whole, Manifest{}, WriterOptions{RotateAge: -1})
	if err != nil {
		t.Fatal(err)
	}
	for i := range int64(40) {
		for _, r := range append(oneOfEach(i), event(i, body(i)), answer(i, body(i))) {
			if err := w.Append(r); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := Repair(t.Context(), dir); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(readAll(t, mustOpen(t, whole), Range{}), readAll(t, mustOpen(t, dir), Range{})); diff != "" {
		t.Errorf("written, and repaired:\n%s", diff)
	}
	if left, err := journals(dir); err != nil || len(left) > 0 {
		t.Errorf("left: %v, %v", left, err)
	}
}

// Until it has the folder's lock, whatever it read may be of the past: a writer that is about to end is still one.
func TestRepairOfATraceThatIsEnding(t *testing.T) {
	dir, _ := abandoned(t)
	m, _, err := readManifest(dir)
	if err != nil {
		t.Fatal(err)
	}
	m.Complete = true
	if err := writeManifest(dir, m, createFile); err != nil {
		t.Fatal(err)
	}
	lock, err := lockFolder(dir)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Repair(t.Context(), dir); err == nil {
		t.Error("it takes away the journal of a writer that has not ended")
	}
	if left, err := journals(dir); err != nil || len(left) != 1 {
		t.Errorf("left: %v, %v", left, err)
	}
	if err := lock.release(); err != nil {
		t.Fatal(err)
	}
	if done, err := Repair(t.Context(), dir); err != nil || done.Untouched {
		t.Errorf("%+v, %v", done, err)
	}
	if left, err := journals(dir); err != nil || len(left) > 0 {
		t.Errorf("left: %v, %v", left, err)
	}
}

// Of several that repair a trace at once one does it, and the others find it done or under way.
func TestRepairAtOnce(t *testing.T) {
	dir, rows := abandoned(t)
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			var busy *FormatError
			for {
				if _, err := Repair(t.Context(), dir); err == nil {
					return
				} else if !errors.As(err, &busy) || !strings.Contains(err.Error(), "still being written") {
					t.Error(err)
					return
				}
			}
		})
	}
	all.Wait()
	tr := mustOpen(t, dir)
	if got, losses := readAll(t, tr, Range{}), tr.Manifest().Losses; len(got) != len(rows) || len(losses) != 1 {
		t.Errorf("%d rows of %d, losses %+v", len(got), len(rows), losses)
	}
}

// Without a journal a file that no manifest lists is all that there is of its rows, and the loss says what it is.
func TestRepairWithoutAJournal(t *testing.T) {
	dir, _ := abandoned(t)
	if err := removeJournals(dir); err != nil {
		t.Fatal(err)
	}
	m, _, err := readManifest(dir)
	if err != nil || len(m.Files) == 0 {
		t.Fatalf("%+v, %v", m, err)
	}
	content, err := os.ReadFile(filepath.Join(dir, m.Files[0].Name))
	if err != nil {
		t.Fatal(err)
	}
	stray := filepath.Join(dir, "watch-0099.parquet")
	if err := os.WriteFile(stray, content, 0o600); err != nil {
		t.Fatal(err)
	}
	if done, err := Repair(t.Context(), dir); err != nil || done.Rows != 0 {
		t.Fatalf("%+v, %v", done, err)
	}
	if _, err := os.Stat(stray); err != nil {
		t.Errorf("rows that stand nowhere else are gone: %v", err)
	}
	losses := mustOpen(t, dir).Manifest().Losses
	if len(losses) != 1 || !strings.Contains(losses[0].Reason, "left no journal") || losses[0].To.Sub(losses[0].From) != time.Minute {
		t.Errorf("losses %+v", losses)
	}
}

// endsAfter is a context that ends once it was asked so many times.
type endsAfter struct {
	context.Context
	left atomic.Int64
}

func (c *endsAfter) Err() error {
	if c.left.Add(-1) < 0 {
		return context.Canceled
	}
	return nil
}

// A Repair that is interrupted, or finds no room, leaves the trace to be repaired: nothing is stated to be lost that is
// not, and no row is there twice.
func TestRepairBeginsAnew(t *testing.T) {
	for name, attempt := range map[string]func(dir string, n int64) error{
		"interrupted": func(dir string, n int64) error {
			ctx := &endsAfter{Context: t.Context()}
			ctx.left.Store(n)
			_, err := Repair(ctx, dir)
			if err != nil && !errors.Is(err, context.Canceled) {
				t.Errorf("after %d: %v", n, err)
			}
			return err
		},
		"no room": func(dir string, n int64) error {
			var disk smallDisk
			disk.room.Store(100 * n)
			_, err := repairWith(t.Context(), dir, WriterOptions{RowGroupRows: 5, RotateBytes: 1 << 10, RotateAge: -1, create: disk.manifestsAlways})
			var format *FormatError
			if err != nil && (!errors.Is(err, syscall.ENOSPC) || errors.As(err, &format) || strings.Contains(err.Error(), "\n")) {
				t.Errorf("with %d bytes: %v", 100*n, err)
			}
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			dir, rows := abandoned(t)
			failed := 0
			for n := int64(1); attempt(dir, n) != nil; n *= 2 {
				failed++
			}
			tr := mustOpen(t, dir)
			if failed < 5 {
				t.Errorf("only %d attempts failed", failed)
			}
			if got, losses := readAll(t, tr, Range{}), tr.Manifest().Losses; len(got) != len(rows) || len(losses) != 1 {
				t.Errorf("%d rows of %d, losses %+v", len(got), len(rows), losses)
			}
			if problems, err := tr.Verify(t.Context()); err != nil || len(problems) > 0 {
				t.Errorf("verify: %v, %v", problems, err)
			}
		})
	}
}

// A journal that is cut off or flipped at whatever byte gives what stands before, and says how much was not whole.
func TestRepairOfATornJournal(t *testing.T) {
	source, rows := abandoned(t)
	names, err := journals(source)
	if err != nil || len(names) != 1 {
		t.Fatalf("%v, %v", names, err)
	}
	text, err := os.ReadFile(names[0])
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name string
		torn func([]byte) []byte
	}{
		{"nothing", func([]byte) []byte { return nil }},
		{"half a head", func(b []byte) []byte { return b[:5] }},
		{"half", func(b []byte) []byte { return b[:len(b)/2] }},
		{"all but a byte", func(b []byte) []byte { return b[:len(b)-1] }},
		{"a flipped bit", func(b []byte) []byte { b[len(b)-20] ^= 4; return b }},
		{"zeros behind", func(b []byte) []byte { return append(b, make([]byte, 100)...) }},
	} {
		dir := filepath.Join(t.TempDir(), "t.optrace")
		if err := os.CopyFS(dir, os.DirFS(source)); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, filepath.Base(names[0])), c.torn(append([]byte(nil), text...)), 0o600); err != nil {
			t.Fatal(err)
		}
		done, err := Repair(t.Context(), dir)
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		tr := mustOpen(t, dir)
		n := len(readAll(t, tr, Range{}))
		if problems, err := tr.Verify(t.Context()); err != nil || len(problems) > 0 || n < len(rows)/2 || n > len(rows) {
			t.Errorf("%s: %d rows; verify: %v, %v", c.name, n, problems, err)
		}
		torn := c.name != "nothing"
		if stated := strings.Contains(tr.Manifest().Losses[0].Reason, "in part"); (done.Torn > 0) != torn || stated != torn {
			t.Errorf("%s: %+v, losses %+v", c.name, done, tr.Manifest().Losses)
		}
	}
}

// A real disk that is full ends the recording with one clear error, and the trace until then stands.
func TestFullFileSystem(t *testing.T) {
	disk := t.TempDir()
	if err := mountSmall(disk); err != nil {
		t.Skipf("SKIPPED: mounting a small file system takes CAP_SYS_ADMIN: %v", err)
	}
	t.Cleanup(func() {
		if err := unmount(disk); err != nil {
			t.Error(err)
		}
	})
	dir := filepath.Join(disk, "t.optrace")
	w, err := Create(dir, Manifest{}, WriterOptions{RowGroupRows: 50, RotateBytes: 64 << 10, RotateAge: -1, Journal: time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	var appended int64
	for i := int64(0); err == nil; i++ {
		padding := strings.Repeat(fmt.Sprint(rand.Uint64(), " "), 200)
		if err = w.Append(&Log{Message: padding}); err == nil {
			appended++
		}
	}
	if closed := w.Close(); !errors.Is(err, syscall.ENOSPC) || !errors.Is(closed, syscall.ENOSPC) || !strings.Contains(closed.Error(), dir) || strings.Contains(closed.Error(), "\n") {
		t.Errorf("Append says %v, and Close %v", err, closed)
	}
	tr := mustOpen(t, dir)
	n := int64(len(readAll(t, tr, Range{})))
	var lost int64
	for _, l := range tr.Manifest().Losses {
		lost += l.Count
	}
	if n == 0 || n+lost < appended {
		t.Errorf("%d rows and %d lost of %d", n, lost, appended)
	}
	if problems, err := tr.Verify(t.Context()); err != nil || len(problems) != 1 || !strings.Contains(problems[0].Detail, "not closed") {
		t.Errorf("verify: %v, %v; want only that it was not closed", problems, err)
	}
}
