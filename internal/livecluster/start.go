package livecluster

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"
)

// deadlineMargin is what a test is left to say that the cluster did not come up in time.
const deadlineMargin = 10 * time.Second

// Start starts a cluster for a test and stops it with the test's cleanup. It never skips: where the
// cluster cannot run, the test fails saying what is missing. If the test has failed, the ends of the
// servers' logs are in its output.
func Start(t testing.TB, o Options) *Cluster {
	t.Helper()
	c := start(t, o)
	t.Cleanup(func() {
		report(t, c)
		c.Stop()
	})
	return c
}

func start(t testing.TB, o Options) *Cluster {
	t.Helper()
	if o.Progress == nil {
		o.Progress = t.Logf
	}
	ctx := context.Background()
	if test, ok := t.(interface{ Deadline() (time.Time, bool) }); ok {
		if deadline, ok := test.Deadline(); ok {
			var cancel context.CancelFunc
			ctx, cancel = context.WithDeadlineCause(ctx, deadline.Add(-deadlineMargin),
				fmt.Errorf("the test's time (go test -timeout) is up"))
			defer cancel()
		}
	}
	c, err := Up(ctx, o)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// report is what a test says about its cluster in the end.
func report(t testing.TB, c *Cluster) {
	t.Helper()
	if p := c.ended(); p != nil {
		t.Errorf("during the test %v", p.failure())
	}
	if !t.Failed() {
		return
	}
	for _, p := range c.servers {
		t.Logf("the end of %s:\n%s", p.log, p.tail())
	}
}

var shared struct {
	sync.Mutex
	clusters map[string]*Cluster
}

// Shared gives the cluster that the package's tests with the same options share; the first to ask
// starts it. It runs until StopShared, which TestMain calls after the tests. Tests that share a cluster
// must keep to namespaces of their own.
func Shared(t testing.TB, o Options) *Cluster {
	t.Helper()
	key := fmt.Sprintf("%q %q %t %q %q", o.Controllers, o.FeatureGates, o.AuditLog, o.AuditWebhook, o.Dir)
	shared.Lock()
	defer shared.Unlock()
	c := shared.clusters[key]
	if c == nil {
		c = start(t, o)
		if shared.clusters == nil {
			shared.clusters = map[string]*Cluster{}
		}
		shared.clusters[key] = c
	}
	t.Cleanup(func() { report(t, c) })
	return c
}

// StopShared stops the clusters that Shared started.
func StopShared() {
	shared.Lock()
	defer shared.Unlock()
	for key, c := range shared.clusters {
		c.Stop()
		delete(shared.clusters, key)
	}
}
