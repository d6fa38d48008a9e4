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
