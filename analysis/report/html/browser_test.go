package html

import (
	"context"
	_ "embed" // the accessibility checker
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/chromedp/cdproto/input"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"github.com/opreplay/opreplay/analysis"
	"github.com/opreplay/opreplay/traces"
)

// browser is a page in headless Chromium, and what it complained of and asked for.
type browser struct {
	t        testing.TB
	ctx      context.Context
	mu       sync.Mutex
	troubles []string
}

// chromium is the one browser of all tests; each opens a tab of its own. It is nil where none is installed.
var chromium context.Context

func TestMain(m *testing.M) {
	stop := func() {}
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome"} {
		if path, err := exec.LookPath(name); err == nil {
			chromium, stop = chromedp.NewContext(context.Background(), chromedp.WithAllocatorOptions(chromedp.ExecPath(path), chromedp.NoSandbox))
			break
		}
	}
	code := m.Run()
	stop()
	os.Exit(code)
}

// open shows a page as if it were opened from disk.
func open(t testing.TB, page string, width, height int) *browser {
	t.Helper()
	file := filepath.Join(t.TempDir(), "report.html")
	if err := os.WriteFile(file, []byte(page), 0o600); err != nil {
		t.Fatal(err)
	}
	return openAt(t, (&url.URL{Scheme: "file", Path: file}).String(), width, height)
}

// openAt shows a page of an address. It may ask for what lies below that, and for nothing else.
func openAt(t testing.TB, target string, width, height int) *browser {
	t.Helper()
	if chromium == nil {
		t.Skip("SKIPPED: no chromium (Debian: apt-get install chromium): what the page looks like was not tested")
	}
	if err := chromedp.Do(chromium); err != nil { // starts it
		t.Fatal(err)
	}
	ctx, cancel := chromedp.NewContext(chromium)
	t.Cleanup(cancel)
	b := &browser{t: t, ctx: ctx}
	t.Cleanup(b.done)
	if err := chromedp.Listen(ctx, func(e any) { b.heard(e, target) }); err != nil {
		t.Fatal(err)
	}
	b.do(chromedp.EmulateViewport(int64(width), int64(height)), chromedp.Navigate(target))
	return b
}

// heard keeps what a page should not do.
func (b *browser) heard(e any, target string) {
	switch x := e.(type) {
	case *runtime.EventExceptionThrown:
		b.trouble("exception: %s", x.ExceptionDetails.Exception.Description)
	case *runtime.EventConsoleAPICalled:
		b.trouble("console: %s", x.Type)
	case *log.EventEntryAdded:
		b.trouble("log: %s", x.Entry.Text)
	case *network.EventRequestWillBeSent:
		own := x.Request.URL == target || strings.HasPrefix(target, "http:") && strings.HasPrefix(x.Request.URL, target)
		if !own && !strings.HasPrefix(x.Request.URL, "data:") {
			b.trouble("asked for %s", x.Request.URL)
		}
	}
}

func (b *browser) trouble(form string, args ...any) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.troubles = append(b.troubles, fmt.Sprintf(form, args...))
}

func (b *browser) do(actions ...chromedp.Action[chromedp.Void]) {
	b.t.Helper()
	if err := chromedp.Do(b.ctx, actions...); err != nil {
		b.t.Fatal(err)
	}
}

// eval is the value of a JavaScript expression.
func eval[T any](b *browser, js string) T {
	b.t.Helper()
	v, err := chromedp.Run(b.ctx, chromedp.Evaluate[T](js, chromedp.EvalAwaitPromise))
	if err != nil {
		b.t.Fatal(err)
	}
	return v
}

// until waits for a condition in JavaScript.
func (b *browser) until(js string) {
	b.t.Helper()
	if !eval[bool](b, `(async () => { for (let i = 0; i < 3000; i++) { if (`+js+`) return true; await new Promise(r => setTimeout(r, 20)); } return false; })()`) {
		b.t.Fatalf("not within a minute: %s", js)
	}
}

// look brings each chart into view and waits until it is drawn; it is how many there are.
func (b *browser) look() string {
	b.t.Helper()
	return eval[string](b, `(async () => {
		for (let i = 0; i < 3; i++) await new Promise(requestAnimationFrame); // another width has been noticed by then
		const all = [...document.querySelectorAll('.chart')];
		for (const e of all) {
			e.scrollIntoView();
			for (let i = 0; !('drawn' in e.dataset); i++) {
				if (i > 600) return e.dataset.chart + ' is not drawn';
				await new Promise(requestAnimationFrame);
			}
		}
		return String(all.length);
	})()`)
}

// forget gives up what was complained of so far.
func (b *browser) forget() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.troubles = nil
}

func (b *browser) done() {
	b.t.Helper()
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, x := range b.troubles {
		b.t.Error(x)
	}
}

// shot keeps a picture of the whole page where REPORT_SHOTS says.
func (b *browser) shot(name string) {
	b.t.Helper()
	if dir := os.Getenv("REPORT_SHOTS"); dir != "" {
		if err := os.WriteFile(filepath.Join(dir, name+".png"), b.picture(), 0o600); err != nil {
			b.t.Fatal(err)
		}
	}
}

// picture is the whole page as it looks.
func (b *browser) picture() []byte {
	b.t.Helper()
	picture, err := chromedp.Run(b.ctx, chromedp.FullScreenshot(100))
	if err != nil {
		b.t.Fatal(err)
	}
	return picture
}

// Each chart has data in it, whatever the width and the theme: its canvas holds more than one colour, and each kind of
// mark that the trace has.
func TestChartsHaveData(t *testing.T) {
	trace, result := everything(t, 900)
	page := write(t, trace, result, Options{Reference: trace})
	for _, width := range []int{1280, 390} {
		t.Run(fmt.Sprint(width), func(t *testing.T) {
			b := open(t, page, width, 900)
			if n := b.look(); n != "14" {
				t.Errorf("%s charts, want 14", n)
			}
			empty := eval[[]string](b, `[...document.querySelectorAll('.chart')].filter(e => {
				const seen = new Set();
				for (const c of e.querySelectorAll('canvas')) {
					const d = c.getContext('2d').getImageData(0, 0, c.width, c.height).data;
					for (let i = 0; i < d.length; i += 4) if (d[i + 3] === 255) seen.add(d[i] << 16 | d[i + 1] << 8 | d[i + 2]);
				}
				return seen.size < 4;
			}).map(e => e.dataset.chart)`)
			if len(empty) > 0 {
				t.Errorf("nothing drawn in %v", empty)
			}
			b.fits()
			b.shot(fmt.Sprint("light-", width))
			b.do(chromedp.Click(chromedp.CSS("#theme")))
			b.shot(fmt.Sprint("dark-", width))
		})
	}
}

// fits asserts that nothing stands beyond the window's width, and no text upon another.
func (b *browser) fits() {
	b.t.Helper()
	if wide := eval[int](b, `document.documentElement.scrollWidth - document.documentElement.clientWidth`); wide > 0 {
		b.t.Errorf("the page is %d pixels wider than the window", wide)
	}
	if over := eval[[]string](b, overlaps); len(over) > 0 {
		b.t.Errorf("texts overlap: %v", over)
	}
	if over := eval[[]string](b, drawnOverlaps); len(over) > 0 {
		b.t.Errorf("texts in charts overlap: %v", over)
	}
}

// drawnOverlaps are the pairs of texts in a chart whose boxes cut each other.
const drawnOverlaps = `(() => {
	const found = [];
	for (const el of document.querySelectorAll('.chart')) {
		const c = window.echarts?.getInstanceByDom(el);
		if (!c) continue;
		const boxes = c.getZr().storage.getDisplayList(true).filter(d => d.type === 'tspan' && d.style.text.trim() && !d.invisible && d.style.opacity !== 0).map(d => {
			const r = d.getBoundingRect().clone();
			if (d.transform) r.applyTransform(d.transform);
			for (const clip of d.__clipPaths || []) { // of a legend that can be leafed through
				const x = clip.getBoundingRect().clone();
				if (clip.transform) x.applyTransform(clip.transform);
				const right = Math.min(r.x + r.width, x.x + x.width), below = Math.min(r.y + r.height, x.y + x.height);
				r.x = Math.max(r.x, x.x); r.y = Math.max(r.y, x.y); r.width = right - r.x; r.height = below - r.y;
			}
			return {r, text: d.style.text};
		});
		for (let i = 0; i < boxes.length; i++) for (let j = i + 1; j < boxes.length; j++) {
			const a = boxes[i].r, b = boxes[j].r;
			const w = Math.min(a.x + a.width, b.x + b.width) - Math.max(a.x, b.x), h = Math.min(a.y + a.height, b.y + b.height) - Math.max(a.y, b.y);
			if (w > 2 && h > 3) found.push(el.dataset.chart + ': ' + boxes[i].text.slice(0, 30) + ' | ' + boxes[j].text.slice(0, 30));
		}
	}
	return found;
})()`

// overlaps are the pairs of neighbouring texts whose boxes cut each other.
const overlaps = `(() => {
	const boxes = [], walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
	while (walker.nextNode()) {
		const n = walker.currentNode, p = n.parentElement;
		if (!n.textContent.trim() || p.closest('script,style,.skip,noscript,details:not([open])') || !p.checkVisibility()) continue;
		const r = document.createRange(); r.selectNodeContents(n);
		for (const x of r.getClientRects()) if (x.width > 1) boxes.push({n, x, in: p.closest('.scroll')});
	}
	const found = [];
	for (let i = 0; i < boxes.length; i++) for (let j = i + 1; j < boxes.length; j++) {
		const a = boxes[i], b = boxes[j];
		if (a.n === b.n || a.in || b.in) continue;
		const w = Math.min(a.x.right, b.x.right) - Math.max(a.x.left, b.x.left), h = Math.min(a.x.bottom, b.x.bottom) - Math.max(a.x.top, b.x.top);
		if (w > 2 && h > 4) found.push(a.n.textContent.slice(0, 30) + ' | ' + b.n.textContent.slice(0, 30));
	}
	return found;
})()`

const timelineChart = chromedp.CSS("[data-chart=timeline]")

// A mark that is chosen by keyboard is told of with what it changed; the filter leaves the lanes that were asked for.
func TestKeyboardAndFilter(t *testing.T) {
	trace, result := everything(t, 900)
	b := open(t, write(t, trace, result, Options{}), 1280, 900)
	b.look()
	b.do(chromedp.Focus(timelineChart), chromedp.SendKeys(timelineChart, "++"))
	const zoomed = `(() => { const z = echarts.getInstanceByDom(document.querySelector('[data-chart=timeline]')).getOption().dataZoom[0]; return z.end - z.start; })()`
	if w := eval[float64](b, zoomed); w != 25 {
		t.Errorf("two pluses show %v %% of the time, want 25", w)
	}
	b.do(chromedp.SendKeys(timelineChart, kb.ArrowRight+"-0"))
	if w := eval[float64](b, zoomed); w != 100 {
		t.Errorf("0 shows %v %% of the time, want all", w)
	}
	b.do(chromedp.SendKeys(chromedp.CSS(".filter"), "front-0"))
	if got := eval[string](b, `document.querySelector('.filtered').textContent`); got != "2 of 82 lanes" {
		t.Errorf("the filter says %q", got)
	}
	// The events of front-0 in order: its first state, its reconcile, and, three rounds of 40 later, another state.
	b.do(chromedp.SendKeys(timelineChart, "nnn"))
	told := eval[string](b, `document.querySelector('#timeline .record').textContent`)
	if !strings.Contains(told, "modified pods shop/front-0") || !strings.Contains(told, "spec.replicas") || !strings.Contains(told, "05") {
		t.Errorf("told of the third event: %q", told)
	}
}

const (
	chosen = `document.querySelector('#timeline .record').textContent`
	window = `(() => { const z = echarts.getInstanceByDom(document.querySelector('[data-chart=timeline]')).getOption().dataZoom[0]; return [z.startValue, z.endValue]; })()`
)

// A key of the table is walked through in the timeline: from its object's state to the reconcile that it queued and to the
// calls that this made, each ringed where it is.
func TestWalk(t *testing.T) {
	trace, result := everything(t, 900)
	b := open(t, write(t, trace, result, Options{}), 1280, 900)
	b.look()
	b.do(chromedp.Click(chromedp.CSS(`.key[data-object="shop/front-1"]`)))
	if got := eval[string](b, `document.querySelector('.filtered').textContent`); got != "2 of 82 lanes" { // and not front-10
		t.Errorf("the filter says %q", got)
	}
	if got := eval[string](b, chosen); !strings.Contains(got, "modified pods shop/front-1") {
		t.Errorf("the first of the key is %q", got)
	}
	b.do(chromedp.SendKeys(timelineChart, "n"))
	if got := eval[string](b, chosen); !strings.Contains(got, "reconcile pods shop/front-1") || !strings.Contains(got, "queued by seq") || !strings.Contains(got, "its call seq") {
		t.Errorf("the second of the key is %q", got)
	}
	if eval[bool](b, `document.querySelector('#timeline .ring').hidden`) {
		t.Error("what was chosen has no ring")
	}
	b.shot("walk")
	b.do(chromedp.Click(chromedp.CSS(`#timeline .record p:nth-of-type(2) button:nth-of-type(2)`)))
	if got := eval[string](b, chosen); !strings.Contains(got, "calls by op") || !strings.Contains(got, "in seq") {
		t.Errorf("its call is %q", got)
	}
	if !eval[bool](b, `document.querySelector('#timeline .ring').hidden`) {
		t.Error("what has no lane here has a ring")
	}
	b.do(chromedp.Click(chromedp.CSS(`#timeline .record button`)))
	if got := eval[string](b, chosen); !strings.Contains(got, "reconcile pods shop/front-1") {
		t.Errorf("back at %q", got)
	}
}

// A mouse tells of a mark by resting on it, chooses it by a click, zooms with the wheel and Ctrl and moves by dragging.
func TestMouse(t *testing.T) {
	trace, result := everything(t, 900)
	b := open(t, write(t, trace, result, Options{}), 1280, 900)
	b.look()
	b.do(chromedp.Evaluate[chromedp.Void](`document.querySelector('[data-chart=timeline]').scrollIntoView({block: 'center'})`))
	at := eval[[]float64](b, `(() => {
		const el = document.querySelector('[data-chart=timeline]'), c = echarts.getInstanceByDom(el), box = el.getBoundingClientRect();
		window.told = '';
		c.on('showTip', () => { window.told = 'yes'; });
		const run = JSON.parse(document.getElementById('data').textContent).runs[0].timeline, i = run.t.findIndex((t, j) => t > 400 && run.lane[j] === 5);
		const [x, y] = c.convertToPixel({xAxisIndex: 0, yAxisIndex: 0}, [run.t[i], 5]);
		return [box.left + x, box.top + y, run.seq[i]];
	})()`)
	x, y := at[0], at[1]
	b.do(chromedp.MouseEvent(chromedp.MouseMoved, x-40, y), chromedp.MouseEvent(chromedp.MouseMoved, x, y))
	b.until(`window.told === 'yes'`)
	b.do(chromedp.MouseClickXY(x, y))
	if got, want := eval[string](b, chosen), fmt.Sprintf("seq %v: modified pods shop/front-", at[2]); !strings.HasPrefix(got, want) {
		t.Errorf("the click tells %q, want %q", got, want)
	}
	before := eval[[]float64](b, window)
	wheel := func(p *input.DispatchMouseEventParams) { p.DeltaX, p.DeltaY = 1, -200 } // no delta may be 0, which is left out on the wire
	b.do(chromedp.MouseEvent(chromedp.MouseWheel, x, y, wheel, chromedp.ButtonModifiers(chromedp.ModifierCtrl)))
	b.until(window + `[1] - ` + window + `[0] < ` + fmt.Sprint(before[1]-before[0]))
	zoomed := eval[[]float64](b, window)
	left := chromedp.ButtonLeft
	b.do(chromedp.MouseEvent(chromedp.MousePressed, x, y+8, left), chromedp.MouseEvent(chromedp.MouseMoved, x-60, y+8, left), chromedp.MouseEvent(chromedp.MouseMoved, x-120, y+8, left), chromedp.MouseEvent(chromedp.MouseReleased, x-120, y+8, left))
	b.until(window + `[0] > ` + fmt.Sprint(zoomed[0]))
}

// A hundred thousand events can be drawn and zoomed into; BenchmarkLargePage says how long that takes.
func TestLargePage(t *testing.T) {
	trace, result := everything(t, 100_000)
	page := write(t, trace, result, Options{})
	b := open(t, page, 1280, 900)
	b.look()
	if n := eval[int](b, `JSON.parse(document.getElementById('data').textContent).runs[0].timeline.t.length`); n < 100_000 {
		t.Errorf("%d events in the page, want 100,000", n)
	}
	b.do(chromedp.SendKeys(timelineChart, "++++"))
	const told = `echarts.getInstanceByDom(document.querySelector('[data-chart=timeline]')).getOption().dataZoom[0]`
	if z := eval[map[string]any](b, told); z["end"].(float64)-z["start"].(float64) != 6.25 {
		t.Errorf("zoomed to %v", z)
	}
}

// BenchmarkLargePage opens a page of 100,000 events: when it is first painted, when its script has run, how long it
// takes to draw the whole timeline and to zoom into it, and how large it is.
func BenchmarkLargePage(b *testing.B) {
	trace, result := everything(b, 100_000)
	page := write(b, trace, result, Options{})
	for b.Loop() {
		b.ReportMetric(float64(len(page))/1e6, "MB")
		x := open(b, page, 1280, 900)
		b.ReportMetric(eval[float64](x, `performance.getEntriesByName('first-contentful-paint')[0].startTime`), "ms/first-paint")
		b.ReportMetric(eval[float64](x, `performance.getEntriesByType('navigation')[0].loadEventEnd`), "ms/loaded")
		const timed = `(async f => { const t = performance.now(); f(); await new Promise(requestAnimationFrame); await new Promise(r => setTimeout(r)); return performance.now() - t; })`
		x.look()
		c := `echarts.getInstanceByDom(document.querySelector('[data-chart=timeline]'))`
		b.ReportMetric(eval[float64](x, timed+`(() => `+c+`.resize())`), "ms/draw")
		b.ReportMetric(eval[float64](x, timed+`(() => `+c+`.dispatchAction({type: 'dataZoom', dataZoomIndex: 0, start: 40, end: 50}))`), "ms/zoom")
	}
}

// axe is Deque's accessibility checker, as its npm package has it (axe-core 4.14.1, MPL-2.0).
//
//go:embed testdata/axe.min.js
var axe string

// A screen reader can use the page, and a weak eye can read it, in light and in dark: axe-core finds nothing.
func TestAccessible(t *testing.T) {
	trace, result := everything(t, 900)
	b := open(t, write(t, trace, result, Options{Reference: trace}), 1280, 900)
	b.look()
	b.accessible()
}

// accessible asserts that axe-core has nothing to say, in light and in dark, with all that can be opened open.
func (b *browser) accessible() {
	b.t.Helper()
	b.do(chromedp.Evaluate[chromedp.Void](axe))
	b.do(chromedp.Evaluate[chromedp.Void](`document.querySelectorAll('details').forEach(e => { e.open = true; })`))
	for _, theme := range []string{"light", "dark"} {
		b.do(chromedp.Evaluate[chromedp.Void](`document.documentElement.dataset.theme = '` + theme + `'`))
		for _, x := range eval[[]string](b, `axe.run().then(r => r.violations.flatMap(v => v.nodes.map(n => v.id + ': ' + n.target + ' ' + n.failureSummary)))`) {
			b.t.Errorf("%s: %s", theme, x)
		}
	}
}

// Each labelled trace of a faulty operator makes a page without complaints, beside its mended twin, with all charts drawn.
func TestLabelledTraces(t *testing.T) {
	dirs, err := filepath.Glob("../../../traces/labelled/*-faulty.optrace")
	if err != nil || len(dirs) == 0 {
		t.Fatalf("no labelled traces: %v", err)
	}
	for _, dir := range dirs {
		name := strings.TrimSuffix(filepath.Base(dir), ".optrace")
		t.Run(name, func(t *testing.T) {
			trace := opened(t, dir)
			result, err := analysis.Analyze(t.Context(), trace, analysis.Options{})
			if err != nil {
				t.Fatal(err)
			}
			o := Options{Reference: opened(t, strings.Replace(dir, "-faulty.", "-fixed.", 1))}
			page := write(t, trace, result, o)
			d := dataOf(t, page).Runs[0]
			charts := 2 // both runs, the timeline
			has := []bool{d.Latency != nil, d.Duration != nil, d.Kernel != nil, d.Flame != nil}
			for i, f := range result.Findings {
				charts++
				e := f.Evidence
				has = append(has, len(f.Path) > 0, len(f.Survival) > 0, e.Period != nil, e.Backoff != nil && len(e.Backoff.DelaysSeconds) > 1, d.Findings[i].Flame != nil)
			}
			for _, more := range has {
				if more {
					charts++
				}
			}
			b := open(t, page, 1280, 900)
			if n := b.look(); n != fmt.Sprint(charts) {
				t.Errorf("%s charts, want %d", n, charts)
			}
			b.fits()
			b.shot(name)
			b.do(chromedp.EmulateViewport(390, 844))
			if n := b.look(); n != fmt.Sprint(charts) {
				t.Errorf("%s charts on a phone, want %d", n, charts)
			}
			b.fits()
			b.shot(name + "-390")
		})
	}
}

func opened(t *testing.T, dir string) *traces.Trace {
	t.Helper()
	trace, err := traces.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = trace.Close() })
	return trace
}
