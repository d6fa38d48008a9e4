package replay

import (
	"context"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/opreplay/opreplay/traces"
)

// TestTimePasses: in eleven quiet minutes watches get bookmarks, one about every minute each, and old versions are
// compacted twice; the second run is the first.
func TestTimePasses(t *testing.T) {
	needVirtual(t)
	o, err := caseTask(t, "statusloop", "--fixed").options()
	if err != nil {
		t.Fatal(err)
	}
	o.Settle = 11 * time.Minute
	s, err := Open(context.Background(), o)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	play := func() []traces.Record {
		rows := &Rows{}
		if _, err := s.Play(context.Background(), Variant{Rows: rows}); err != nil {
			t.Fatal(err)
		}
		return rows.All
	}
	one, other := play(), play()
	if d := cmp.Diff(one, other); d != "" {
		t.Errorf("two runs differ:\n%.2000s", d)
	}
	bookmarks, compactions := map[string]int{}, 0
	for _, r := range one {
		switch r := r.(type) {
		case *traces.WatchEvent:
			if r.Type == string(traces.Bookmark) {
				bookmarks[r.Stream]++
			}
		case *traces.Decision:
			if r.Kind == "compaction" {
				compactions++
			}
		}
	}
	if compactions != 2 {
		t.Errorf("%d compactions, want 2", compactions)
	}
	if len(bookmarks) == 0 {
		t.Error("no watch got a bookmark")
	}
	for stream, n := range bookmarks {
		// A watch's first may be the one that ends its initial events; one may live less long than the run.
		if n < 2 || n > 12 {
			t.Errorf("%s got %d bookmarks", stream, n)
		}
	}
	t.Logf("bookmarks by stream: %v", bookmarks)
}
