package html

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/opreplay/opreplay/traces"
)

func get(t *testing.T, l *Live, host, path string) (int, string) {
	t.Helper()
	r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+host+path, nil)
	w := httptest.NewRecorder()
	l.ServeHTTP(w, r)
	return w.Code, w.Body.String()
}

// A live page is made anew when the trace has grown, and has another version then.
func TestLive(t *testing.T) {
	m := newMade(t)
	m.state(time.Second, traces.Added, "a", 1, "")
	rotate := func() {
		t.Helper()
		if err := m.w.Rotate(); err != nil {
			t.Fatal(err)
		}
	}
	rotate()
	l := &Live{Dir: m.dir}
	_, version := get(t, l, "localhost:1", "/version")
	if _, page := get(t, l, "127.0.0.1:1", "/"); !strings.Contains(page, "pods shop/a") || !strings.Contains(page, "data-live") || strings.Contains(page, "pods shop/b") {
		t.Error("the first page is not of the first state")
	}
	m.state(time.Second, traces.Added, "b", 2, "")
	rotate()
	if _, now := get(t, l, "[::1]:1", "/version"); now == version {
		t.Error("the version is the same after the trace has grown")
	}
	if _, page := get(t, l, "localhost", "/"); !strings.Contains(page, "pods shop/b") {
		t.Error("the second page lacks what came since")
	}
	for _, host := range []string{"evil.example.com", "10.0.0.1:80", "localhost.evil.example.com"} {
		if code, _ := get(t, l, host, "/"); code != http.StatusForbidden {
			t.Errorf("%s is answered by %d", host, code)
		}
	}
}
