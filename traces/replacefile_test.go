package traces

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
)

// logged is a file that tells what is done to it.
type logged struct {
	output
	path string
	log  *[]string
}

func (l *logged) note(what string) {
	_, err := os.Stat(l.path)
	if err == nil {
		what += " in place"
	}
	*l.log = append(*l.log, what)
}

func (l *logged) Write(p []byte) (int, error) { l.note("write"); return l.output.Write(p) }
func (l *logged) Sync() error                 { l.note("sync"); return l.output.Sync() }
func (l *logged) Close() error                { l.note("close"); return l.output.Close() }

// A file takes its name when its content is on the disk, not before; a crash before that leaves the old one, and
// nothing that stands in the way of the next attempt.
func TestReplaceFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "t")
	var log []string
	create := func(tmp string) (output, error) {
		f, err := createFile(tmp)
		return &logged{f, path, &log}, err
	}
	if err := os.WriteFile(filepath.Join(filepath.Dir(path), tempName("t")), []byte("half"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := replaceFile(path, []byte("one"), create); err != nil {
		t.Fatal(err)
	}
	if want := []string{"write", "sync", "close"}; !slices.Equal(log, want) {
		t.Errorf("done to the file: %q, want %q", log, want)
	}
	if err := WriteRows(path, []Label{{Name: "a"}}); err != nil {
		t.Fatal(err)
	}
	if rows, err := ReadRows[Label](path); err != nil || len(rows) != 1 || rows[0].Name != "a" {
		t.Errorf("%v, %v", rows, err)
	}
	left, err := os.ReadDir(filepath.Dir(path))
	if info, statErr := os.Stat(path); err != nil || len(left) != 1 || statErr != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("left behind: %v, %v; the file: %v, %v", left, err, info, statErr)
	}
}
