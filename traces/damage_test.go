package traces

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// patience divides how often a test repeats itself: see race_test.go.
var patience = 1

// damaged makes a small trace with all tables.
func damaged(t testing.TB) string {
	t.Helper()
	w, dir := mustCreate(t, WriterOptions{RowGroupRows: 20, RotateAge: -1})
	for i := range int64(50) {
		appendAll(t, w, oneOfEach(i)...)
		appendAll(t, w, event(i, body(i)), answer(i, body(i)))
	}
	mustClose(t, w)
	return dir
}

func mustReadFile(t testing.TB, path string) []byte {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func mustWriteFile(t testing.TB, path string, b []byte) {
	t.Helper()
	if err := os.WriteFile(path, b, 0o600); err != nil {
		t.Fatal(err)
	}
}

// isClear says that an error is one line that names a path and is the input's fault.
func isClear(t *testing.T, err error, path string) {
	t.Helper()
	var bad *FormatError
	switch {
	case !errors.As(err, &bad):
		t.Errorf("error %v (%T), want a FormatError", err, err)
	case bad.Path != path:
		t.Errorf("the error names %s, want %s: %v", bad.Path, path, err)
	case strings.Contains(err.Error(), "\n"), !bad.BadInput():
		t.Errorf("not one line of bad input: %v", err)
	}
}

func TestOpenRefuses(t *testing.T) {
	good := mustReadFile(t, filepath.Join(damaged(t), ManifestName))
	edit := func(change func(m map[string]any)) string {
		var m map[string]any
		if err := json.Unmarshal(good, &m); err != nil {
			t.Fatal(err)
		}
		change(m)
		b, _ := json.Marshal(m)
		return string(b)
	}
	editFile := func(field string, v any) string {
		return edit(func(m map[string]any) { m["files"].([]any)[0].(map[string]any)[field] = v })
	}
	for name, c := range map[string]struct{ manifest, want string }{
		"empty":           {"", "line 1, column 1: bad JSON"},
		"cut off":         {"{\n  \"format\": {", "line 2, column 13: bad JSON"},
		"no JSON":         {"PAR1", "line 1, column 1: bad JSON: invalid character 'P'"},
		"wrong type":      {"{\"format\": {\"major\": 1},\n\"files\": 7}", "line 2, column 10: bad JSON: files must be a []traces.File, not a number"},
		"no version":      {"{}", "names no format version"},
		"newer major":     {`{"format": {"major": 2, "minor": 3}, "files": "another form"}`, "format version 2.3, and this program reads version 1; use a newer release"},
		"leaves folder":   {editFile("name", "../watch-0001.parquet"), "not a plain file name"},
		"absolute":        {editFile("name", "/etc/passwd"), "not a plain file name"},
		"no hash":         {editFile("sha256", ""), "has no SHA-256"},
		"negative":        {editFile("rows", -1), "impossible numbers"},
		"the same twice":  {editFile("name", "requests-0001.parquet"), "listed twice"},
		"a missing file":  {editFile("name", "watch-0007.parquet"), "and it is missing"},
		"a shorter file":  {editFile("bytes", 1<<40), "is cut off: it has"},
		"a longer file":   {editFile("bytes", 1), "bytes, and manifest.json says 1"},
		"manifest folder": {"", ""},
	} {
		t.Run(name, func(t *testing.T) {
			dir := damaged(t)
			path := filepath.Join(dir, ManifestName)
			if name == "manifest folder" {
				os.Remove(path)
				if err := os.Mkdir(path, 0o700); err != nil {
					t.Fatal(err)
				}
			} else {
				mustWriteFile(t, path, []byte(c.manifest))
			}
			_, err := Open(dir)
			if err == nil {
				t.Fatal("opened")
			}
			if !strings.Contains(err.Error(), c.want) {
				t.Errorf("error %q, want %q in it", err, c.want)
			}
			var bad *FormatError
			if !errors.As(err, &bad) || !strings.HasPrefix(bad.Path, dir) {
				t.Errorf("%v is no FormatError with a path of the trace", err)
			}
		})
	}
	dir := damaged(t)
	missing := filepath.Join(dir, "nowhere")
	_, err := Open(missing)
	isClear(t, err, missing)
	file := filepath.Join(dir, ManifestName)
	_, err = Open(file)
	isClear(t, err, file)
	empty := t.TempDir()
	_, err = Open(empty)
	isClear(t, err, empty)
	if err := os.Remove(filepath.Join(dir, "logs-0001.parquet")); err != nil {
		t.Fatal(err)
	}
	_, err = Open(dir)
	isClear(t, err, filepath.Join(dir, "logs-0001.parquet"))
}

// A newer minor version may have fields and tables that this one does not know; it is read all the same.
func TestNewerMinorIsRead(t *testing.T) {
	dir := damaged(t)
	path := filepath.Join(dir, ManifestName)
	b := mustReadFile(t, path)
	b = bytes.Replace(b, []byte(fmt.Sprintf(`"minor": %d`, FormatMinor)), []byte(`"minor": 7, "new": {"field": 1}`), 1)
	b = bytes.Replace(b, []byte(`"table": "decisions"`), []byte(`"table": "dreams"`), 1)
	mustWriteFile(t, path, b)
	tr := mustOpen(t, dir)
	if n := len(readAll(t, tr, Range{})); n != 50*(len(kinds)-1+2) {
		t.Errorf("%d rows, want all but the unknown table's", n)
	}
	mustVerify(t, tr)
}

// A file that lost its end is refused when the trace is opened, at whatever byte.
func TestTruncated(t *testing.T) {
	dir := damaged(t)
	path := filepath.Join(dir, "watch-0001.parquet")
	whole := mustReadFile(t, path)
	random := rand.New(rand.NewPCG(1, 0))
	for range 100 / patience {
		n := random.IntN(len(whole))
		mustWriteFile(t, path, whole[:n])
		_, err := Open(dir)
		isClear(t, err, path)
	}
}

// One flipped bit anywhere in a Parquet file is an error that names the file: never a panic, never
// other data.
func TestFlippedBits(t *testing.T) {
	dir := damaged(t)
	names := []string{"watch-0001.parquet", "requests-0001.parquet", "stacks-0001.parquet", "metrics-0001.parquet"}
	for seed := range uint64(300 / patience) {
		random := rand.New(rand.NewPCG(seed, 0))
		path := filepath.Join(dir, names[random.IntN(len(names))])
		whole := mustReadFile(t, path)
		flipped := bytes.Clone(whole)
		flipped[random.IntN(len(flipped))] ^= 1 << random.IntN(8)
		mustWriteFile(t, path, flipped)

		tr := mustOpen(t, dir) // the size is right, so this works
		var err error
		for _, err = range tr.Records(context.Background(), Range{}) {
			if err != nil {
				break
			}
		}
		isClear(t, err, path)
		if seed%4 != 0 {
			mustWriteFile(t, path, whole)
			continue
		}
		problems, err := tr.Verify(context.Background())
		if err != nil || len(problems) == 0 || problems[0].File != filepath.Base(path) {
			t.Errorf("seed %d: verify says %v, %v", seed, problems, err)
		}
		mustWriteFile(t, path, whole)
	}
}

// Behind the hash there is a second line: with a manifest that vouches for the damage, flipped bits in
// pages give an error or the very same rows. (Not so in the footer, which has no checksum: there only
// the manifest's hash protects.)
func TestFlippedBitsInPagesThatTheManifestVouchesFor(t *testing.T) {
	dir := damaged(t)
	want := readAll(t, mustOpen(t, dir), Range{})
	var caught int
	for seed := range uint64(200 / patience) {
		tr := mustOpen(t, dir)
		random := rand.New(rand.NewPCG(seed, 1))
		f := &tr.manifest.Files[random.IntN(3)]
		path := filepath.Join(dir, f.Name)
		whole := mustReadFile(t, path)
		footer := int(whole[len(whole)-8]) | int(whole[len(whole)-7])<<8 | int(whole[len(whole)-6])<<16
		flipped := bytes.Clone(whole)
		flipped[4+random.IntN(len(flipped)-footer-12)] ^= 1 << random.IntN(8)
		mustWriteFile(t, path, flipped)
		tr.trusted[f.Name] = nil

		var got []Record
		var err error
		var rec Record
		for rec, err = range tr.Records(context.Background(), Range{}) {
			if err == nil {
				got = append(got, rec)
			}
		}
		if err != nil {
			caught++
			isClear(t, err, path)
		} else if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("seed %d: other rows and no error:\n%s", seed, diff)
		}
		mustWriteFile(t, path, whole)
	}
	if caught < 100/patience { // the rest hits page indexes, which are not read, and padding
		t.Errorf("only %d flips were caught: the test hits the wrong bytes", caught)
	}
}

func TestVerifyNames(t *testing.T) {
	problems := func(dir string) string {
		t.Helper()
		ps, err := mustOpen(t, dir).Verify(context.Background())
		if err != nil {
			t.Fatal(err)
		}
		var lines []string
		for _, p := range ps {
			lines = append(lines, p.File+": "+p.Detail)
		}
		return strings.Join(lines, "\n")
	}
	manifest := func(dir string, change func(*Manifest)) {
		t.Helper()
		path := filepath.Join(dir, ManifestName)
		var m Manifest
		if err := json.Unmarshal(mustReadFile(t, path), &m); err != nil {
			t.Fatal(err)
		}
		change(&m)
		b, _ := json.Marshal(m)
		mustWriteFile(t, path, b)
	}
	t.Run("strays", func(t *testing.T) {
		dir := damaged(t)
		mustWriteFile(t, filepath.Join(dir, "watch-0002.parquet"), nil)
		mustWriteFile(t, filepath.Join(dir, ".logs-0002.parquet.tmp"), nil)
		mustWriteFile(t, filepath.Join(dir, "README"), nil)
		want := ".logs-0002.parquet.tmp: left by a writer that did not finish (or is still at work)\n" +
			"watch-0002.parquet: manifest.json does not list this file: its rows are not part of the trace"
		if got := problems(dir); got != want {
			t.Errorf("got %s\nwant %s", got, want)
		}
	})
	t.Run("ranges", func(t *testing.T) {
		dir := damaged(t)
		manifest(dir, func(m *Manifest) { m.Files[0].LastSeq++ })
		if got := problems(dir); !strings.HasPrefix(got, "watch-0001.parquet: holds 100 rows, seq 1 to 549,") || !strings.Contains(got, "says 100 rows, seq 1 to 550,") {
			t.Errorf("got %s", got)
		}
	})
	t.Run("incomplete", func(t *testing.T) {
		dir := damaged(t)
		manifest(dir, func(m *Manifest) { m.Complete = false })
		if got := problems(dir); !strings.HasPrefix(got, "manifest.json: the trace was not closed") {
			t.Errorf("got %s", got)
		}
	})
	t.Run("a wrong row", func(t *testing.T) {
		w, dir := mustCreate(t, WriterOptions{})
		wrong := []Record{&WatchEvent{Type: "BORN"}, &WatchEvent{Type: string(Added), Object: "{"}, &Request{StartSeq: 9}, &Log{Head: Head{Seq: 3}}}
		appendAll(t, w, wrong...)
		mustClose(t, w)
		want := `watch-0001.parquet: row group 0, row 0 (seq 1): event type "BORN" is none of a watch's
watch-0001.parquet: row group 0, row 1 (seq 2): the object is not JSON
requests-0001.parquet: row group 0, row 0 (seq 3): the call started at seq 9, after it ended
manifest.json: seq 3 was given twice: to a row of requests and to one of logs`
		if got := problems(dir); got != want {
			t.Errorf("got\n%s\nwant\n%s", got, want)
		}
	})
	t.Run("many", func(t *testing.T) {
		w, dir := mustCreate(t, WriterOptions{})
		for range 100 {
			appendAll(t, w, &WatchEvent{Type: "BORN"})
		}
		mustClose(t, w)
		got := problems(dir)
		if n := strings.Count(got, "\n"); n != maxProblems || !strings.HasSuffix(got, "and 80 more problems") {
			t.Errorf("%d lines: %s", n+1, got)
		}
	})
}

func FuzzParseManifest(f *testing.F) {
	f.Add([]byte(`{"format":{"major":1,"minor":0},"files":[]}`))
	f.Add([]byte(`{"format":{"major":2}}`))
	f.Add([]byte(`{"format":{"major":1},"files":[{"name":"a","sha256":"x","rows":-1}]}`))
	f.Add([]byte("{\n\n\"format\":"))
	f.Fuzz(func(t *testing.T, text []byte) {
		m, bad := parseManifest(text)
		if (m == nil) == (bad == nil) {
			t.Fatalf("manifest %v and error %v", m, bad)
		}
		if bad != nil {
			bad.Path = "p"
			if strings.Contains(bad.Error(), "\n") {
				t.Errorf("more than one line: %q", bad.Error())
			}
			return
		}
		again, err := json.Marshal(m)
		if err != nil {
			t.Fatal(err)
		}
		m2, bad := parseManifest(again)
		if bad != nil {
			t.Fatalf("what was read is refused when written again: %v", bad)
		}
		if diff := cmp.Diff(m, m2); diff != "" {
			t.Errorf("written and read again it differs:\n%s", diff)
		}
	})
}
