package live

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil/promlint"
	dto "github.com/prometheus/client_model/go"

	"github.com/opreplay/opreplay/traces"
)

const deploy = "../../deploy"

// busyOperator has a series of each metric.
func busyOperator(t *testing.T) *Metrics {
	t.Helper()
	m := New(Options{
		Process: func(int) string { return "shop" },
		Lost: func() map[string]int64 {
			return map[string]int64{"requests/shop": 2, "requests/other": 1, "samples": 4}
		},
		Loops: func() []Loop {
			return []Loop{{"shop", 1500, 3 * time.Second}, {"shop", 4000, 2 * time.Second}}
		},
	})
	second := int64(time.Second)
	for _, r := range []traces.Record{
		&traces.Reconcile{Head: traces.Head{TS: 3 * second}, Start: second, Process: "shop", Controller: "site", Namespace: "ns", Name: "cart", Outcome: "error"},
		&traces.Reconcile{Head: traces.Head{TS: 9 * second}, Start: second, Process: "shop", Controller: "site", Namespace: "ns", Name: "cart"},
		&traces.Request{Head: traces.Head{TS: 2 * second}, Start: second, Process: "shop", Verb: "update", Identity: traces.Identity{Group: "web.example.com", Resource: "sites"}, Code: 409},
		&traces.Request{Head: traces.Head{TS: 600 * second}, Start: second, Process: "shop", Verb: "watch", Identity: traces.Identity{Resource: "pods"}, Code: 200},
		&traces.WatchEvent{Process: "oprec", Identity: traces.Identity{Resource: "pods"}},
		&traces.KernelEvent{Kind: "refused", PID: 7, Address: "::1", Port: 9443, Count: 3},
		&traces.KernelEvent{Kind: "fork", PID: 7, Count: 1},
		&traces.KernelEvent{Kind: "enospc", PID: 7, Count: 2},
		&traces.Sample{PID: 7, Weight: 5},
		&traces.Log{},
	} {
		m.Row(r)
	}
	return m
}

// gathered are the metrics by their names.
func gathered(t *testing.T, m *Metrics) map[string]*dto.MetricFamily {
	t.Helper()
	all, err := m.Gatherer().Gather()
	if err != nil {
		t.Fatal(err)
	}
	byName := map[string]*dto.MetricFamily{}
	for _, f := range all {
		byName[f.GetName()] = f
	}
	return byName
}

// one is the value of a metric's only series, of a histogram the sum of what it observed, and its labels.
func one(t *testing.T, f *dto.MetricFamily) string {
	t.Helper()
	if f == nil || len(f.GetMetric()) != 1 {
		t.Errorf("%v has not one series", f)
		return ""
	}
	s := f.GetMetric()[0]
	var labels []string
	for _, l := range s.GetLabel() {
		labels = append(labels, l.GetName()+"="+l.GetValue())
	}
	return fmt.Sprint(strings.Join(labels, " "), " ", s.GetCounter().GetValue()+s.GetGauge().GetValue()+s.GetHistogram().GetSampleSum())
}

func TestMetrics(t *testing.T) {
	all := gathered(t, busyOperator(t))
	for name, want := range map[string]string{
		"oprec_reconcile_duration_seconds": "controller=site process=shop 2", // the end of the other was not seen
		"oprec_request_duration_seconds":   "process=shop verb=update 1",     // a watch lasts as long as it likes
		"oprec_writes_total":               "process=shop resource=sites.web.example.com verb=update 1",
		"oprec_conflicts_total":            "process=shop resource=sites.web.example.com verb=update 1",
		"oprec_watch_events_total":         "process=oprec resource=pods 1",
		"oprec_refused_connections_total":  "address=[::1]:9443 process=shop 3",
		"oprec_forks_total":                "process=shop 1",
		"oprec_no_space_errors_total":      "process=shop 2",
		"oprec_stack_samples_total":        "process=shop 5",
		"ebpf_loop_stack_rate":             "process=shop 4000",
		"ebpf_loop_persist_seconds":        "process=shop 3",
		"oprec_key_reconciles_per_second":  "controller=site name=cart namespace=ns process=shop 0.0333",
	} {
		if got := one(t, all[name]); !strings.HasPrefix(got, want) {
			t.Errorf("%s: %s, want %s", name, got, want)
		}
	}
	lost := map[string]float64{}
	for _, s := range all["oprec_lost_total"].GetMetric() {
		lost[s.GetLabel()[0].GetValue()] = s.GetCounter().GetValue()
	}
	if want := map[string]float64{"requests": 3, "samples": 4}; !maps.Equal(lost, want) {
		t.Errorf("lost: %v, want %v", lost, want)
	}
}

// Names, types and help are as Prometheus wants them.
func TestLint(t *testing.T) {
	all := gathered(t, busyOperator(t))
	problems, err := promlint.NewWithMetricFamilies(slices.Collect(maps.Values(all))).Lint()
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range problems {
		t.Errorf("%s: %s", p.Metric, p.Text)
	}
}

// However many objects, controllers and addresses there are, there are as many series as said, and no count is lost.
func TestSeriesAreBounded(t *testing.T) {
	m := New(Options{Process: func(int) string { return "shop" }})
	const n = 20_000
	for i := range n {
		name := fmt.Sprint("n", i)
		m.Row(&traces.Reconcile{Process: "shop", Controller: name, Namespace: "ns", Name: name, Outcome: "success"})
		m.Row(&traces.KernelEvent{Kind: "refused", Address: name, Count: 1})
	}
	for range 50 {
		m.Row(&traces.Reconcile{Process: "shop", Controller: "n0", Namespace: "ns", Name: "hot", Outcome: "success"})
	}
	all := gathered(t, m)
	for name, want := range map[string]float64{"oprec_reconciles_total": n + 50, "oprec_refused_connections_total": n} {
		sum := 0.0
		for _, s := range all[name].GetMetric() {
			sum += s.GetCounter().GetValue()
		}
		if series := len(all[name].GetMetric()); sum != want || series != maxValues+1 {
			t.Errorf("%s: %v in %d series, want %v in %d", name, sum, series, want, maxValues+1)
		}
	}
	keys := all["oprec_key_reconciles_per_second"].GetMetric()
	hot := slices.ContainsFunc(keys, func(s *dto.Metric) bool {
		return slices.ContainsFunc(s.GetLabel(), func(l *dto.LabelPair) bool { return l.GetName() == "name" && l.GetValue() == "hot" })
	})
	if len(keys) != maxKeys || !hot || len(m.keys.rates) > remembered {
		t.Errorf("%d keys are shown, the busiest among them: %t; %d remembered", len(keys), hot, len(m.keys.rates))
	}
}

// A key's rate is what it is over a minute, and is forgotten.
func TestKeyRate(t *testing.T) {
	now := time.Unix(1_800_000_000, 0)
	k := newKeys(func() time.Time { return now })
	for range 10 * 600 { // ten a second for ten minutes
		now = now.Add(100 * time.Millisecond)
		k.count(key{name: "a"})
	}
	if got := k.busiest(now)[0].rate; got < 9.9 || got > 10.1 {
		t.Errorf("%v a second, want 10", got)
	}
	if got := k.busiest(now.Add(10 * time.Minute))[0].rate; got > 0.001 {
		t.Errorf("%v a second ten minutes later", got)
	}
}

func TestServe(t *testing.T) {
	s, err := busyOperator(t).Serve("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = s.Close() }()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.URL, nil)
	if err != nil {
		t.Fatal(err)
	}
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	text, err := io.ReadAll(answer.Body)
	_ = answer.Body.Close()
	if err != nil || !strings.Contains(string(text), `ebpf_loop_stack_rate{process="shop"} 4000`) {
		t.Errorf("%v\n%s", err, text)
	}
}

// named are the metrics that a text speaks of.
var named = regexp.MustCompile(`\b(oprec|ebpf)_[a-z_]+`)

func wantKnown(t *testing.T, where, text string) {
	t.Helper()
	known := gathered(t, busyOperator(t))
	all := named.FindAllString(text, -1)
	if len(all) == 0 {
		t.Errorf("%s names no metric", where)
	}
	for _, name := range all {
		for _, end := range []string{"_bucket", "_sum", "_count"} {
			if base, ok := strings.CutSuffix(name, end); ok && known[base].GetType() == dto.MetricType_HISTOGRAM {
				name = base
			}
		}
		if known[name] == nil {
			t.Errorf("%s speaks of %s, which there is not", where, name)
		}
	}
}

// The dashboard has its four quadrants, and asks for what there is.
func TestDashboard(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(deploy, "grafana", "operator.json"))
	if err != nil {
		t.Fatal(err)
	}
	var board struct {
		UID    string
		Panels []struct {
			Title   string
			GridPos struct{ X, Y, W, H int }
			Targets []struct{ Expr string }
		}
	}
	if err := json.Unmarshal(text, &board); err != nil {
		t.Fatal(err)
	}
	places := map[string][2]int{}
	for _, p := range board.Panels {
		for _, q := range p.Targets {
			wantKnown(t, p.Title, q.Expr)
		}
		if len(p.Targets) == 0 {
			t.Errorf("%s shows nothing", p.Title)
		}
		places[p.Title] = [2]int{p.GridPos.X, p.GridPos.Y}
	}
	for title, place := range map[string][2]int{
		"Reconcile duration": {0, 0}, "API latency": {12, 0}, "Refused connections": {0, 9}, "Reconciles by id": {12, 9},
	} {
		if got, ok := places[title]; !ok || got != place {
			t.Errorf("%s stands at %v, want %v", title, got, place)
		}
	}
}

// The alerts are Prometheus's own to check, and to try out on made-up series.
func TestAlerts(t *testing.T) {
	dir := filepath.Join(deploy, "prometheus")
	text, err := os.ReadFile(filepath.Join(dir, "oprec.rules.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	var expressions []string
	for line := range strings.Lines(string(text)) {
		if !strings.HasPrefix(line, "#") && !strings.Contains(line, "description:") {
			expressions = append(expressions, line)
		}
	}
	wantKnown(t, "oprec.rules.yaml", strings.Join(expressions, ""))
	promtool, err := exec.LookPath("promtool")
	if err != nil {
		t.Skip("SKIPPED: promtool is not here (Debian: apt-get install prometheus), so that nobody has tried the alerts")
	}
	for _, args := range [][]string{{"check", "rules", "oprec.rules.yaml"}, {"test", "rules", "oprec.rules.test.yaml"}} {
		cmd := exec.CommandContext(t.Context(), promtool, args...)
		cmd.Dir = dir
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("promtool %s: %v\n%s", strings.Join(args, " "), err, out)
		}
	}
}

// Who closes the server may take away what a scrape asks: none is under way any more.
func TestCloseWaitsForScrapes(t *testing.T) {
	asked, closing := make(chan struct{}), make(chan struct{})
	var answered atomic.Bool
	m := New(Options{Lost: func() map[string]int64 {
		close(asked)
		select {
		case <-closing:
			answered.Store(true)
		case <-t.Context().Done():
		}
		return nil
	}})
	s, err := m.Serve("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s.server.RegisterOnShutdown(sync.OnceFunc(func() { close(closing) }))
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.URL, nil)
	if err != nil {
		t.Fatal(err)
	}
	scraped := make(chan struct{})
	go func() {
		defer close(scraped)
		if answer, err := http.DefaultClient.Do(r); err == nil {
			_ = answer.Body.Close()
		}
	}()
	<-asked
	if err := s.Close(); err != nil || !answered.Load() {
		t.Errorf("a scrape is under way still; %v", err)
	}
	<-scraped
	if err := s.Close(); err != nil {
		t.Errorf("once more: %v", err)
	}
}
