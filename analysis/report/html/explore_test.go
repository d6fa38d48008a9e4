package html

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"github.com/opreplay/opreplay/traces"
)

// underWay is an exploration after so many plans.
func underWay(done int) *Exploration {
	e := &Exploration{
		Title: "halfcreate-explored", Stage: "Running plans", Planned: 20, Done: done, Before: 2, Began: begin, Now: begin.Add(time.Duration(done) * time.Second),
		Kinds:  []ExploredKind{{Kind: "crash", Fine: done - 1, Alarms: 1}},
		Pruned: []string{"3 × a write says what another says"},
		Findings: []ExploredFinding{{
			What: "at the end there is no services mq/orders", ShownBy: "shown by 1 plan (crash)", Plan: "seed: 7\nfaults:\n- crash: {}\n",
			Command: "opsim replay t --plan finding-1.yaml", Keep: "opsim replay t --plan finding-1.yaml --out finding-1.optrace", Also: []string{"and another"},
		}},
	}
	return e
}

// traceOf is the folder of a trace of a run of a plan.
func traceOf(t *testing.T, plan string) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "made.optrace")
	w, err := traces.Create(dir, traces.Manifest{Created: begin, Tool: "test", Source: "sim", Run: &traces.Run{Plan: plan}}, traces.WriterOptions{})
	if err != nil {
		t.Fatal(err)
	}
	m := &made{t: t, w: w, dir: dir, now: begin.UnixNano()}
	m.state(time.Second, traces.Added, "a", 1, "")
	m.open()
	return dir
}

// served is a live page of an exploration that a test moves on.
type served struct {
	mu sync.Mutex
	e  *Exploration
	n  int
	// looks is how often it was looked at.
	looks int
}

func (s *served) page() *LiveExploration { return &LiveExploration{Version: s.version, Look: s.look} }

func (s *served) version() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return fmt.Sprint(s.n)
}

func (s *served) look() (*Exploration, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.looks++
	return s.e, nil
}

func (s *served) set(e *Exploration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.e, s.n = e, s.n+1
}

func TestExplorationCounts(t *testing.T) {
	e := underWay(12) // 10 in 12 s
	if r := e.Rate(); r != 50 {
		t.Errorf("%v plans a minute, want 50", r)
	}
	if l := e.Left(); l != "10 s" { // 8 at 50 a minute
		t.Errorf("%s left, want 10 s", l)
	}
	e.Until = e.Now.Add(4 * time.Second)
	if l := e.Left(); l != "4 s" {
		t.Errorf("%s left of 4", l)
	}
	if e.Now = e.Until; e.Left() != "" {
		t.Error("what makes plans small has time left for plans")
	}
	e.Until = time.Time{}
	if e.Over = true; e.Left() != "" {
		t.Error("what is over has time left")
	}
}

// The page follows the exploration by itself, keeps what its reader has opened, asks nobody else, and has the report of the
// failing run once its trace is there.
func TestLiveExploration(t *testing.T) {
	s := &served{e: underWay(5)}
	l := s.page()
	server := httptest.NewServer(l)
	t.Cleanup(server.Close)
	b := openAt(t, server.URL+"/", 1280, 900)
	b.do(chromedp.Click(chromedp.CSS("#findings summary")))
	b.fits()
	b.shot("explore-1280")
	b.accessible()
	e := underWay(13)
	e.Findings[0].Trace = traceOf(t, e.Findings[0].Plan)
	more := e.Findings[0]
	more.What, more.Plan = hostile, "seed: 7\nfaults: []\n" // whose number the other one had when the trace was made
	e.Findings = append([]ExploredFinding{more}, e.Findings...)
	s.set(e)
	b.until(`document.querySelector('progress').value === 13`)
	if n := eval[int](b, `document.querySelectorAll('#findings article').length`); n != 2 {
		t.Errorf("%d findings, want 2", n)
	}
	if open := eval[[]bool](b, `[...document.querySelectorAll('#findings article')].map(a => a.querySelector('details').open)`); open[0] || !open[1] {
		t.Errorf("open: %v, want what was opened, which is the second now", open)
	}
	if eval[bool](b, `'stolen' in window`) {
		t.Error("a text of the exploration was run")
	}
	b.do(chromedp.Click(chromedp.CSS(`a[href="finding-2/"]`)), chromedp.WaitVisible(chromedp.CSS("#timeline")))
	if title := eval[string](b, `document.querySelector('h1').textContent`); title != "made.optrace" {
		t.Errorf("the failing run's page is of %q", title)
	}
	small := openAt(t, server.URL+"/", 390, 844)
	small.fits()
	small.shot("explore-390")
	for path, want := range map[string]int{"/finding-1/": http.StatusNotFound, "/finding-3/": http.StatusNotFound, "/finding-2/version": http.StatusOK, "/etc": http.StatusNotFound} {
		if code := status(t, l, "localhost", path); code != want {
			t.Errorf("%s is answered by %d, want %d", path, code, want)
		}
	}
	if code := status(t, l, "evil.example.com", "/"); code != http.StatusForbidden {
		t.Errorf("another name is answered by %d", code)
	}
}

func status(t *testing.T, h http.Handler, host, path string) int {
	t.Helper()
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+host+path, nil))
	return w.Code
}

// An exploration is looked at once for each version of it, however many ask, and no answer alters what the next one has.
func TestLiveExplorationLooksOnce(t *testing.T) {
	s := &served{e: underWay(5)}
	l := s.page()
	for range 3 {
		for path, want := range map[string]int{"/": http.StatusOK, "/version": http.StatusOK, "/finding-1/version": http.StatusNotFound} {
			if code := status(t, l, "localhost", path); code != want {
				t.Errorf("%s is answered by %d, want %d", path, code, want)
			}
		}
	}
	if s.looks != 1 {
		t.Errorf("looked %d times at one version", s.looks)
	}
	e := underWay(6)
	e.Findings[0].Trace = traceOf(t, e.Findings[0].Plan)
	s.set(e)
	if code := status(t, l, "localhost", "/finding-1/version"); code != http.StatusOK || s.looks != 2 {
		t.Errorf("of the next version the trace is answered by %d, after %d looks", code, s.looks)
	}
	if status(t, l, "localhost", "/"); e.Findings[0].HasTrace {
		t.Error("a page has altered what was looked at")
	}
}

// A page whose opsim has ended says so.
func TestLiveExplorationEnded(t *testing.T) {
	s := &served{e: underWay(5)}
	server := httptest.NewServer(s.page())
	b := openAt(t, server.URL+"/", 1280, 900)
	server.CloseClientConnections()
	server.Close()
	b.until(`document.querySelector('#state').textContent.includes('does not answer any more')`)
	if !strings.Contains(eval[string](b, `document.body.textContent`), "at the end there is no services") {
		t.Error("what was known is gone")
	}
	b.forget() // that nobody answers is what the browser complains of
}
