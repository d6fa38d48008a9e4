package html

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

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

// What a reader has chosen is there still when the page has loaded itself anew: the filter and the part of the time, in the
// trace's own time, which goes on.
func TestLiveKeepsView(t *testing.T) {
	m := newMade(t)
	more := func() {
		t.Helper()
		for i := range int64(5) {
			m.state(time.Second, traces.Modified, "a", m.last+i+1, "")
		}
		if err := m.w.Rotate(); err != nil {
			t.Fatal(err)
		}
	}
	more()
	server := httptest.NewServer(&Live{Dir: m.dir})
	t.Cleanup(server.Close)
	b := openAt(t, server.URL+"/", 1280, 900)
	// again loads the page anew, as it does itself when its version is another one, which it is kept from asking for here.
	again := func() {
		t.Helper()
		b.do(chromedp.Evaluate[chromedp.Void](`window.fetch = () => new Promise(() => {}); undefined`))
		more()
		b.do(chromedp.Navigate(server.URL + "/"))
		b.look()
	}
	b.look()
	b.do(chromedp.SendKeys(chromedp.CSS(".filter"), "shop"), chromedp.Focus(timelineChart), chromedp.SendKeys(timelineChart, "++"))
	before := eval[[]float64](b, window)
	if before[1]-before[0] != 1000 { // a quarter of 4 s
		t.Fatalf("two pluses show %v", before)
	}
	again()
	if n := eval[int](b, `JSON.parse(document.getElementById('data').textContent).runs[0].timeline.t.length`); n != 10 {
		t.Fatalf("%d events after the trace has grown, want 10", n)
	}
	if after := eval[[]float64](b, window); after[0] != before[0] || after[1] != before[1] {
		t.Errorf("shows %v, before %v", after, before)
	}
	if f := eval[string](b, `document.querySelector('.filter').value`); f != "shop" {
		t.Errorf("the filter is %q", f)
	}
	b.do(chromedp.Focus(timelineChart), chromedp.SendKeys(timelineChart, "0"))
	again()
	if all := eval[[]float64](b, window); all[0] != 0 || all[1] != 14_000 {
		t.Errorf("all of it is %v, want 14 s", all)
	}
}
