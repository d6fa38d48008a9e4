package traces

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
)

// smallDisk is a folder's disk with room for so many bytes. A file that is removed or replaced does
// not give its room back: the worst case for who wants to write a manifest.
type smallDisk struct{ room atomic.Int64 }

type diskFile struct {
	output
	disk *smallDisk
}

func (d *smallDisk) create(path string) (output, error) {
	out, err := createFile(path)
	return &diskFile{out, d}, err
}

func (f *diskFile) Write(p []byte) (int, error) {
	if f.disk.room.Add(-int64(len(p))) < 0 {
		return 0, &os.PathError{Op: "write", Path: "t", Err: syscall.ENOSPC}
	}
	return f.output.Write(p)
}

// manifestsAlways has room for manifests, as a real full disk has once a file was given up.
func (d *smallDisk) manifestsAlways(path string) (output, error) {
	if strings.HasSuffix(path, tempName(ManifestName)) {
		return createFile(path)
	}
	return d.create(path)
}

// writeTo writes a trace until the disk is full, and says how many rows were appended or refused.
func writeTo(t *testing.T, dir string, create func(string) (output, error)) (rows map[Table]int64, closed error) {
	t.Helper()
	w, err := Create(dir, Manifest{}, WriterOptions{RowGroupRows: 25, RotateBytes: 16 << 10, RotateAge: -1, create: create})
	if err != nil {
		return nil, err
	}
	rows = map[Table]int64{}
	var first error
	for i := range int64(200) {
		for _, r := range append(oneOfEach(i), event(i, body(i)), answer(i, body(i))) {
			rows[r.Table()]++
			if err := w.Append(r); err != nil {
				if first != nil && !errors.Is(err, first) {
					t.Errorf("the error was %v and became %v", first, err)
				}
				first = err
			} else if first != nil {
				t.Error("the error went away")
			}
		}
	}
	closed = w.Close()
	if first != nil && !errors.Is(closed, syscall.ENOSPC) {
		t.Errorf("Append said %v, and Close %v", first, closed)
	}
	return rows, closed
}

// However full the disk, at whatever byte: the error comes out, what is in the trace is whole, and
// what is not in it is in the losses, row by row.
func TestDiskFull(t *testing.T) {
	whole := filepath.Join(t.TempDir(), "whole")
	var unlimited smallDisk
	unlimited.room.Store(1 << 40)
	if _, err := writeTo(t, whole, unlimited.manifestsAlways); err != nil {
		t.Fatal(err)
	}
	var total int64
	for _, f := range mustOpen(t, whole).Manifest().Files {
		total += f.Bytes
	}
	steps := int64(24 / min(patience, 6))
	for step := range steps {
		t.Run(fmt.Sprintf("%d of %d", step, steps), func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "t.optrace")
			var disk smallDisk
			disk.room.Store(total * step / steps)
			rows, err := writeTo(t, dir, disk.manifestsAlways)
			if !errors.Is(err, syscall.ENOSPC) || !strings.Contains(err.Error(), dir) {
				t.Fatalf("Close says %v, want that there is no space, and where", err)
			}
			tr := mustOpen(t, dir)
			if tr.Manifest().Complete {
				t.Error("the trace claims to be complete")
			}
			for _, r := range readAll(t, tr, Range{}) {
				rows[r.Table()]--
			}
			for _, l := range tr.Manifest().Losses {
				if l.Source != lossOfBodies {
					rows[Table(l.Source)] -= l.Count
				}
			}
			for table, n := range rows {
				if n != 0 {
					t.Errorf("%s: %d rows are neither in the trace nor in its losses: %+v", table, n, tr.Manifest().Losses)
				}
			}
			problems, err := tr.Verify(t.Context())
			if err != nil || len(problems) != 1 || !strings.Contains(problems[0].Detail, "not closed") {
				t.Errorf("verify: %v, %v; want only that it was not closed", problems, err)
			}
		})
	}
}

// With no room even for a manifest the last one that could be written stands, and speaks the truth.
func TestDiskFullForTheManifestToo(t *testing.T) {
	for _, room := range []int64{100, 2_000, 10_000, 30_000, 60_000} {
		dir := filepath.Join(t.TempDir(), "t.optrace")
		var disk smallDisk
		disk.room.Store(room)
		_, err := writeTo(t, dir, disk.create)
		if !errors.Is(err, syscall.ENOSPC) {
			t.Fatalf("%d bytes of room: error %v", room, err)
		}
		tr, err := Open(dir)
		if room == 100 {
			isClear(t, err, dir)
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		problems, err := tr.Verify(t.Context())
		if err != nil || len(problems) == 0 || tr.Manifest().Complete {
			t.Errorf("%d bytes of room: verify says %v, %v", room, problems, err)
		}
		readAll(t, tr, Range{})
	}
}
