package analysis

import (
	"strings"
	"testing"
	"time"
)

func database(c *cluster, name string) ref {
	d := ref{databases, name}
	c.create("kubectl", d, m{"spec": m{"sizeGiB": 1}})
	return d
}

// setConditions is a merge patch of the status that replaces its whole list of conditions.
func setConditions(k *call, list ...any) {
	k.body(m{"status": m{"conditions": list}}).commit(func(o m) { o["status"] = m{"conditions": list} })
}

// race is what two controllers of one process do that each write the status from a copy read before: provisioning
// reports twice, by merge patches made from the first copy; backups by an update, at first refused.
func race(c *cluster, d ref) {
	old := c.rvOf(d)
	setConditions(c.begin("race", "patch", "status", d), condition("Ready", "False", c.stamp()))
	c.sleep(150 * time.Millisecond)
	update(c, "race", d, old).refuse(409, "Conflict")
	c.sleep(155 * time.Millisecond)
	ready := c.get(d)["status"].(m)["conditions"].([]any)[0]
	update(c, "race", d, c.rvOf(d)).commit(func(o m) {
		o["status"] = m{"conditions": []any{ready, condition("BackupScheduled", "True", c.stamp())}}
	})
	c.sleep(300 * time.Millisecond)
	setConditions(c.begin("race", "patch", "status", d), condition("Ready", "True", c.stamp()))
}

func TestLostCondition(t *testing.T) {
	c := newCluster(t, "race")
	for _, name := range []string{"orders", "users", "stock"} {
		race(c, database(c, name))
	}
	c.quiet(5 * time.Second)
	r := c.analyze()
	f := r.only(t, "lost-status")
	if f.Severity != Error || f.Certainty != Likely || f.Total != 3 || f.Field != "status.conditions[*]" {
		t.Errorf("%+v", f)
	}
	if !strings.Contains(f.What, "status.conditions[BackupScheduled] of databases.data.example.com shop/") || !strings.Contains(f.What, "never written again") {
		t.Error(f.What)
	}
	if !strings.Contains(f.Cause, "merge patch of status") || !strings.Contains(f.Cause, "replaces the whole list status.conditions") {
		t.Error(f.Cause)
	}
	if p := f.statistic(t, "lost for good"); p.Value != 1 || p.N != 3 {
		t.Errorf("%+v", p)
	}
	if len(r.Notes) != 1 || r.Notes[0].Detector != "conflict-storm" || r.Notes[0].Count != 3 {
		t.Errorf("the conflicts, too few for a storm, should be a note: %s", r.describe())
	}
}

func TestConflictsOfTheRaceAreGrouped(t *testing.T) {
	c := newCluster(t, "race")
	d := database(c, "orders")
	for range 12 {
		race(c, d)
		c.sleep(time.Second)
		c.spec("kubectl", d, m{"sizeGiB": c.rv})
	}
	c.quiet(5 * time.Second)
	r := c.analyze()
	if len(r.Findings) != 2 {
		t.Fatal(r.describe())
	}
	for _, f := range r.Findings {
		if f.Group != r.Findings[0].ID && f.Group != r.Findings[1].ID || f.Detector == "conflict-storm" && f.Group == f.ID {
			t.Errorf("%s of group %s: %s", f.ID, f.Group, r.describe())
		}
	}
}

func TestLostForSure(t *testing.T) {
	c := newCluster(t, "a", "b")
	d := database(c, "orders")
	k := c.begin("b", "patch", "status", d) // begins before a's version exists
	setConditions(c.begin("a", "patch", "status", d), condition("A", "True", c.stamp()))
	setConditions(k, condition("B", "True", c.stamp()))
	c.quiet(10 * time.Second)
	f := c.analyze(NewLostStatus()).only(t, "lost-status")
	if f.Certainty != Sure || f.Process != "b" || !strings.Contains(f.What, "written by a") {
		t.Errorf("%s %s %s", f.Certainty, f.Process, f.What)
	}
}

func TestDroppedStatusWrite(t *testing.T) {
	c := newCluster(t, "op")
	d := database(c, "orders")
	setConditions(c.begin("op", "patch", "status", d), condition("Ready", "True", c.stamp()))
	old := c.rvOf(d)
	c.spec("kubectl", d, m{"sizeGiB": 2})
	want := c.get(d)
	want["metadata"].(m)["resourceVersion"] = "1002"
	want["status"].(m)["failures"] = 3
	if old != 1002 {
		t.Fatal("the base of the test's body is ", old)
	}
	c.begin("op", "update", "status", d).body(want).refuse(409, "Conflict")
	c.quiet(10 * time.Second)
	f := c.analyze(NewLostStatus()).only(t, "lost-status")
	if f.Severity != Error || !strings.Contains(f.What, "status.failures") || !strings.Contains(f.What, "never written again") || !strings.Contains(f.Cause, "instead of reading again") {
		t.Errorf("%s. %s", f.What, f.Cause)
	}
}

func TestNoLostStatus(t *testing.T) {
	for name, c := range map[string]struct {
		scene func(c *cluster, d ref)
		notes int
	}{
		"the mended twin: each applies its own": {func(c *cluster, d ref) {
			for i := range 6 {
				ready := condition("Ready", []string{"True", "False"}[i%2], c.stamp())
				c.begin("op", "patch", "status", d).apply("provisioning").commit(func(o m) {
					list := []any{ready}
					if i > 0 {
						list = append(list, o["status"].(m)["conditions"].([]any)[1])
					}
					o["status"] = m{"conditions": list}
				})
				c.begin("op", "patch", "status", d).apply("backups").commit(func(o m) {
					o["status"] = m{"conditions": []any{ready, condition("BackupScheduled", "True", "2026-01-01T00:00:00Z")}}
				})
				c.sleep(time.Second)
			}
		}, 0},
		"one worker takes back its own condition": {func(c *cluster, d ref) {
			for range 5 {
				setConditions(c.begin("op", "patch", "status", d), condition("Progressing", "True", c.stamp()))
				c.sleep(500 * time.Millisecond)
				setConditions(c.begin("op", "patch", "status", d), condition("Ready", "True", c.stamp()))
				c.sleep(500 * time.Millisecond)
			}
		}, 0},
		"a condition that flaps": {func(c *cluster, d ref) {
			for i := range 9 {
				update(c, "op", d, c.rvOf(d)).commit(func(o m) {
					o["status"] = m{"conditions": []any{condition("Ready", []string{"True", "False"}[i%2], c.stamp())}}
				})
				c.sleep(time.Second)
			}
		}, 0},
		"a condition that was removed long after": {func(c *cluster, d ref) {
			update(c, "other", d, c.rvOf(d)).commit(func(o m) {
				o["status"] = m{"conditions": []any{condition("Ready", "True", c.stamp()), condition("Old", "True", c.stamp())}}
			})
			c.sleep(time.Hour)
			setConditions(c.begin("op", "patch", "status", d), condition("Ready", "False", c.stamp()))
		}, 0},
		"lost once and written again": {func(c *cluster, d ref) {
			k := c.begin("op", "patch", "status", d)
			update(c, "op", d, c.rvOf(d)).commit(func(o m) { o["status"] = m{"conditions": []any{condition("A", "True", c.stamp())}} })
			setConditions(k, condition("B", "True", c.stamp()))
			setConditions(c.begin("op", "patch", "status", d), condition("B", "True", c.stamp()), condition("A", "True", c.stamp()))
		}, 1},
		"a part that only tidies up": {func(c *cluster, d ref) {
			update(c, "op", d, c.rvOf(d)).commit(func(o m) {
				o["status"] = m{"conditions": []any{condition("A", "True", c.stamp()), condition("B", "True", c.stamp())}}
			})
			c.sleep(time.Second)
			update(c, "op", d, c.rvOf(d)).commit(func(o m) {
				l := o["status"].(m)["conditions"].([]any)
				o["status"] = m{"conditions": append(l, condition("C", "True", c.stamp()))}
			})
			c.sleep(time.Second)
			l := c.get(d)["status"].(m)["conditions"].([]any)
			setConditions(c.begin("op", "patch", "status", d), l[:2]...)
		}, 0},
		"a conflict after which the operator decides anew": {func(c *cluster, d ref) {
			update(c, "op", d, c.rvOf(d)).commit(func(o m) { o["status"] = m{"n": 0} })
			want := c.get(d)
			want["status"] = m{"n": 0, "error": "too small"}
			c.begin("op", "update", "status", d).body(want).refuse(409, "Conflict")
			c.sleep(20 * time.Millisecond)
			update(c, "op", d, c.rvOf(d)).commit(func(o m) { o["status"] = m{"n": 1} })
		}, 0},
		"a retry that is still to come": {func(c *cluster, d ref) {
			update(c, "op", d, c.rvOf(d)).commit(func(o m) { o["status"] = m{"n": 0} })
			want := c.get(d)
			want["status"] = m{"n": 1}
			for range 2 {
				c.sleep(5 * time.Second)
				c.begin("op", "update", "status", d).body(want).refuse(409, "Conflict")
			}
		}, 0},
		"a conflict that is retried": {func(c *cluster, d ref) {
			update(c, "op", d, c.rvOf(d)).commit(func(o m) { o["status"] = m{"n": 0} })
			for i := range 4 {
				want := c.get(d)
				want["status"] = m{"n": i}
				c.begin("op", "update", "status", d).body(want).refuse(409, "Conflict")
				c.sleep(20 * time.Millisecond)
				update(c, "op", d, c.rvOf(d)).commit(func(o m) { o["status"] = m{"n": i} })
			}
		}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			w := newCluster(t, "op", "other")
			c.scene(w, database(w, "orders"))
			w.quiet(10 * time.Second)
			r := w.analyze(NewLostStatus())
			r.none(t)
			if len(r.Notes) != c.notes {
				t.Errorf("want %d notes: %s", c.notes, r.describe())
			}
		})
	}
}
