package recorder

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/opreplay/opreplay/traces"
)

// A recording that failed keeps whatever it has: rows of any table, and what it knows to be missing. One that did not
// begin leaves its name free.
func TestFailedRecordings(t *testing.T) {
	for _, c := range []struct {
		name string
		do   func(*session)
		kept bool
	}{
		{"did not begin", func(*session) {}, false},
		{"did not begin, and says why", func(s *session) { s.lose(newLoss("watch", -1, "refused")) }, false},
		{"a stack", func(s *session) { _ = s.Append(&traces.Stack{StackID: 1}) }, true},
		{"a sample", func(s *session) { _ = s.Append(&traces.Sample{}) }, true},
		{"only losses", func(s *session) { s.begun.Store(true); s.lose(newLoss("watch", -1, "broken off")) }, true},
	} {
		out := filepath.Join(t.TempDir(), "t.optrace")
		s, err := newSession(t.Context(), &Options{Out: out}, &cluster{}, "capture", nil)
		if err != nil {
			t.Fatal(err)
		}
		c.do(s)
		failure := errors.New("broken")
		if _, err := s.finish(failure); !errors.Is(err, failure) {
			t.Errorf("%s: %v", c.name, err)
		}
		trace, err := traces.Open(out)
		if _, statErr := os.Stat(out); (err == nil) != c.kept || (statErr == nil) != c.kept {
			t.Errorf("%s: %v, %v", c.name, err, statErr)
		}
		if err == nil {
			_ = trace.Close()
		}
	}
}
