package analysis

import (
	"strings"
	"testing"

	"github.com/opreplay/opreplay/traces"
)

func (c *cluster) metric(name string, value float64, labels ...traces.Label) {
	c.add(&traces.Metric{Process: "op", Name: name, Value: value, Labels: labels})
}

func TestMetricsThatBreakTheRules(t *testing.T) {
	c := newCluster(t, "op")
	for i := range 12 {
		c.metric("site_sync_ms", 12)
		c.metric("site:rate", 1)
		c.metric("siteErrors", 0)
		c.metric("site_gauge", 1)
		c.metric("site_syncs", float64(i), traces.Label{Name: "siteName", Value: "x"})
		// These are well.
		c.metric("site_duration_seconds_sum", float64(i)*1.5)
		c.metric("site_syncs_total", float64(i))
		c.metric("workqueue_adds_ms", float64(i))
		c.metric("site_pages", float64(i%5), traces.Label{Name: "site_name", Value: "x"})
	}
	r := c.analyze(NewMetrics())
	r.none(t)
	var all []string
	for _, n := range r.Notes {
		all = append(all, n.What)
	}
	want := []string{
		"metrics of op whose labels are not in snake_case: site_syncs",
		"metrics of op whose names are not in snake_case: siteErrors",
		"metrics of op whose names have a colon, which is for recording rules: site:rate",
		"metrics of op whose names have their type in them: site_gauge",
		"metrics of op whose unit is not a base unit (seconds rather than ms): site_sync_ms",
		"metrics of op whose values only rise, as a counter's, and whose names do not end in _total: site_syncs",
	}
	if got := strings.Join(all, "\n"); got != strings.Join(want, "\n") {
		t.Errorf("got\n%s", got)
	}
}

// Where the endpoint says what type a metric has, one scrape is enough, and how values move says nothing.
func TestMetricsOfKnownTypes(t *testing.T) {
	c := newCluster(t, "op")
	for i := range 12 {
		for _, x := range []struct{ name, kind, label string }{
			{"site_syncs", "counter", "site"},
			{"sites_total", "gauge", "site"},
			{"site_count", "gauge", "site"},
			{"site_wait_ms_bucket", "histogram", "le"},
			{"site_wait_ms_sum", "histogram", "site"},
			{"site_wait_ms_count", "histogram", "site"},
			{"site_waits", "gauge", "le"},
			// These are well.
			{"site_errors_total", "counter", "site"},
			{"site_last_sync_seconds", "gauge", "site"}, // rises all the time
			{"site_seconds_bucket", "histogram", "le"},
			{"site_seconds_sum", "histogram", "site"},
			{"site_seconds_count", "histogram", "site"},
			{"site_bytes", "summary", "quantile"},
			{"site_bytes_sum", "summary", "site"},
			{"controller_runtime_active_workers_total", "gauge", "site"},
			{"up", "gauge", "site"},
		} {
			c.add(&traces.Metric{Process: "op", Name: x.name, Type: x.kind, Value: float64(i), Labels: []traces.Label{{Name: x.label, Value: "1"}}})
		}
	}
	r := c.analyze(NewMetrics())
	r.none(t)
	var all []string
	for _, n := range r.Notes {
		all = append(all, n.What)
	}
	want := []string{
		"metrics of op whose labels are le or quantile, as a histogram's or a summary's, and whose type is another: site_waits",
		"metrics of op whose names end in _bucket, _sum or _count, as a histogram's samples, and whose type is another: site_count",
		"metrics of op whose names end in _total, as a counter's, and whose type is another: sites_total",
		"metrics of op whose type is counter, and whose names do not end in _total: site_syncs",
		"metrics of op whose unit is not a base unit (seconds rather than ms): site_wait_ms",
	}
	if got := strings.Join(all, "\n"); got != strings.Join(want, "\n") {
		t.Errorf("got\n%s", got)
	}
}

var (
	services = kind{"", "v1", "services", "Service"}
	monitors = kind{"monitoring.coreos.com", "v1", "servicemonitors", "ServiceMonitor"}
)

func TestMetricsThatNobodyScrapes(t *testing.T) {
	c := newCluster(t, "op")
	c.create("kubectl", ref{services, "op-metrics"}, m{"metadata": m{"labels": m{"app": "op"}}, "spec": m{"ports": []any{m{"name": "https", "port": 8443}}}})
	c.create("kubectl", ref{services, "web"}, m{"spec": m{"ports": []any{m{"name": "http", "port": 80}}}})
	c.analyze(NewMetrics()).silent(t) // the cluster has no ServiceMonitors

	monitor := ref{monitors, "op"}
	c.create("kubectl", monitor, m{"spec": m{"selector": m{"matchLabels": m{"app": "operator"}}}})
	r := c.analyze(NewMetrics())
	if r.none(t); len(r.Notes) != 2 {
		t.Fatal(r.describe())
	}
	if !strings.Contains(r.Notes[1].What, "no ServiceMonitor selects services shop/op-metrics") && !strings.Contains(r.Notes[0].What, "no ServiceMonitor selects services shop/op-metrics") {
		t.Error(r.describe())
	}
	c.spec("kubectl", monitor, m{"selector": m{"matchLabels": m{"app": "op"}}})
	c.quiet(1)
	c.analyze(NewMetrics()).silent(t)
}
