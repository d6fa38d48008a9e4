package front

import (
	"net/http"
	"strings"
	"testing"
)

// TestPanic: a request that has the API server panic breaks its own connection and nothing else, and is noted.
func TestPanic(t *testing.T) {
	s := newStage(t, 1, "", func(o *Options) {
		inner := o.Handler
		o.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/api/v1/pods" {
				panic("a bug")
			}
			inner.ServeHTTP(w, r)
		})
	})
	defer s.d.Close()
	s.call("op.a", "GET", "/api/v1/pods", "")
	s.call("op.b", "GET", "/api/v1/secrets", "")
	if text := s.steps(-1); strings.Contains(text, "error") || !strings.Contains(text, "LIST pods by op: lost") {
		t.Errorf("the steps are\n%s", text)
	}
	if got := s.received("op.a"); got != "nothing\nclosed\n" {
		t.Errorf("its client got %q", got)
	}
	if got := s.received("op.b"); got != "200 SecretList of 0\n" {
		t.Errorf("another got %q", got)
	}
	if notes := s.d.Notes(); len(notes) != 1 || !strings.Contains(notes[0], "panicked in LIST pods by op") || !strings.Contains(notes[0], "a bug") {
		t.Errorf("notes: %q", notes)
	}
}
