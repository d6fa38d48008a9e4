package cases

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"testing"

	"github.com/opreplay/opreplay/traces"
)

// sizeLimit is what a bundled trace may weigh, for all of them are in every clone.
const sizeLimit = 300 << 10

func TestBundledTracesAreSound(t *testing.T) {
	for _, c := range All() {
		t.Run(c.Name, func(t *testing.T) {
			dir, err := c.Extract(t.TempDir())
			if err != nil {
				t.Fatal(err)
			}
			trace, err := traces.Open(dir)
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = trace.Close() }()
			problems, err := trace.Verify(t.Context())
			if err != nil || len(problems) > 0 {
				t.Errorf("verify: %v %v", problems, err)
			}
			m := trace.Manifest()
			if !m.Complete || len(m.Losses) > 0 {
				t.Errorf("complete %v, losses %v: record it again", m.Complete, m.Losses)
			}
			if m.Redaction.Secrets == "none" {
				t.Error("was recorded with the values of Secrets")
			}
			var size int64
			for _, f := range m.Files {
				size += f.Bytes
			}
			if size > sizeLimit {
				t.Errorf("%d kB, want at most %d", size>>10, sizeLimit>>10)
			}
			names(t, trace)
		})
	}
}

// names asserts that nothing in the trace names a path or the host of the machine that it was recorded on.
func names(t *testing.T, trace *traces.Trace) {
	t.Helper()
	private := regexp.MustCompile(`/(home|root|tmp|Users|var/folders)/|kubernetes\.io/hostname`)
	manifest, err := os.ReadFile(filepath.Join(trace.Dir(), "manifest.json"))
	if err != nil {
		t.Fatal(err)
	}
	if found := private.Find(manifest); found != nil {
		t.Errorf("manifest.json has %q", found)
	}
	rows := 0
	for record, err := range trace.Records(t.Context(), traces.Range{}) {
		if err != nil {
			t.Fatal(err)
		}
		text, err := json.Marshal(record)
		if err != nil {
			t.Fatal(err)
		}
		if found := private.Find(text); found != nil {
			t.Errorf("%s row %d has %q", record.Table(), record.Header().Seq, found)
		}
		rows++
	}
	if rows < 100 {
		t.Errorf("%d rows are no session", rows)
	}
}

func TestExtractLeavesWhatIsThere(t *testing.T) {
	dir := t.TempDir()
	c := All()[0]
	if _, err := c.Extract(dir); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Extract(dir); err == nil {
		t.Error("a second Extract overwrote the first")
	}
}
