package analysis

import (
	"fmt"
	"math"
	"strings"
	"testing"
	"time"
)

const provider = "dns.example.com/provider"

func record(c *cluster, name string) ref {
	r := ref{records, name}
	c.create("kubectl", r, m{"spec": m{"zone": "example"}})
	c.finalizers("dns", r, provider)
	return r
}

// leave is a deletion that goes well, in so much time.
func leave(c *cluster, name string, took time.Duration) {
	r := record(c, name)
	c.delete("kubectl", r)
	c.sleep(took)
	c.finalizers("dns", r)
	c.sleep(time.Second)
}

func TestHangInSilence(t *testing.T) {
	c := newCluster(t, "dns")
	zone := ref{zones, "example"}
	c.create("kubectl", zone, m{"metadata": m{"finalizers": []any{"hold"}}})
	for i := range 4 {
		leave(c, fmt.Sprintf("gone-%d", i), 100*time.Millisecond)
	}
	www, mail := record(c, "www"), record(c, "mail")
	c.delete("kubectl", zone)
	c.begin("kubectl", "patch", "", zone).commit(func(o m) { o["metadata"].(m)["finalizers"] = []any{} })
	c.sleep(time.Second)
	c.delete("kubectl", www)
	c.delete("kubectl", mail)
	c.quiet(20 * time.Second)
	f := c.analyze().only(t, "finalizer-hang")
	if f.Severity != Error || f.Certainty != Sure || f.Process != "dns" || f.Total != 2 || f.Objects[0].Name != "www" {
		t.Errorf("%+v", f)
	}
	if !strings.Contains(f.What, provider) || !strings.Contains(f.What, "1 other object") {
		t.Error(f.What)
	}
	for _, want := range []string{"dns was told of the deletion", "has not written to the object since", "returned early", "zones.dns.example.com shop/example, which it names, had gone 1.0 s before"} {
		if !strings.Contains(f.Cause, want) {
			t.Errorf("the cause %q lacks %q", f.Cause, want)
		}
	}
	if p := f.statistic(t, "deletions still open"); p.N != 6 || math.Abs(p.Value-2.0/6) > 1e-9 {
		t.Errorf("%+v", p)
	}
	// Four of six ended, all at 0.1 s and a bit: the curve falls to 1/3 there.
	if last := f.Survival[len(f.Survival)-1]; math.Abs(last.Survival-1.0/3) > 1e-9 || last.Seconds > 0.2 {
		t.Errorf("%+v", f.Survival)
	}
}

func TestKindsOfHang(t *testing.T) {
	for name, c := range map[string]struct {
		scene     func(c *cluster, r ref)
		cause     string
		certainty Certainty
	}{
		"refused": {func(c *cluster, r ref) {
			for range 4 {
				c.sleep(5 * time.Second)
				c.begin("dns", "patch", "", r).refuse(422, "Invalid")
			}
		}, "the merge patch by dns was refused 4 times with 422 Invalid", Sure},
		"failing": {func(c *cluster, _ ref) {
			for range 4 {
				c.sleep(5 * time.Second)
				c.errorLog("dns", "provider says no", "www")
			}
		}, "dns fails over and over (4 errors", Sure},
		"busy": {func(c *cluster, r ref) {
			for i := range 4 {
				c.sleep(5 * time.Second)
				c.status("dns", r, m{"phase": i})
			}
		}, "dns has written to the object 4 times since, but never removed", Likely},
	} {
		t.Run(name, func(t *testing.T) {
			w := newCluster(t, "dns")
			r := record(w, "www")
			w.delete("kubectl", r)
			c.scene(w, r)
			w.quiet(time.Second)
			if f := w.analyze(NewFinalizerHang()).only(t, "finalizer-hang"); !strings.Contains(f.Cause, c.cause) || f.Certainty != c.certainty {
				t.Errorf("%s: %s", f.Certainty, f.Cause)
			}
		})
	}
}

func TestHangWithNobodyThere(t *testing.T) {
	c := newCluster(t, "dns")
	r := record(c, "www")
	c.hidden = map[string]bool{"dns": true} // its watch is gone
	c.sleep(time.Minute)
	c.delete("kubectl", r)
	c.quiet(time.Minute)
	if f := c.analyze().only(t, "finalizer-hang"); !strings.Contains(f.Cause, "nobody who was recorded was told") || f.Certainty != Likely {
		t.Errorf("%s: %s", f.Certainty, f.Cause)
	}
}

func TestNoHang(t *testing.T) {
	for name, c := range map[string]struct {
		scene func(c *cluster)
		notes int
	}{
		"deletions that end": {func(c *cluster) {
			for i := range 20 {
				leave(c, fmt.Sprintf("r%d", i), time.Minute)
			}
		}, 0},
		"a deletion that has just begun": {func(c *cluster) {
			c.delete("kubectl", record(c, "www"))
			c.quiet(5 * time.Second)
		}, 0},
		"deletions that take minutes each time": {func(c *cluster) {
			for i := range 5 {
				leave(c, fmt.Sprintf("r%d", i), 3*time.Minute)
			}
			c.delete("kubectl", record(c, "www"))
			c.quiet(8 * time.Minute)
		}, 0},
		"clean-up that makes progress": {func(c *cluster) {
			r := record(c, "www")
			c.finalizers("dns", r, "a", "b", "c")
			c.delete("kubectl", r)
			for _, rest := range [][]any{{"b", "c"}, {"c"}} {
				c.sleep(8 * time.Second)
				c.finalizers("dns", r, rest...)
			}
			c.quiet(time.Second)
		}, 0},
		"the cluster's own finalizers, without the cluster's own controllers": {func(c *cluster) {
			r := ref{configs, "child"}
			c.create("kubectl", r, m{"metadata": m{"finalizers": []any{"foregroundDeletion"}}})
			c.delete("kubectl", r)
			c.quiet(time.Minute)
		}, 1},
	} {
		t.Run(name, func(t *testing.T) {
			w := newCluster(t, "dns")
			c.scene(w)
			r := w.analyze()
			r.none(t)
			if len(r.Notes) != c.notes {
				t.Errorf("want %d notes: %s", c.notes, r.describe())
			}
		})
	}
}
