package cluster

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/opreplay/opreplay/sim"
	"github.com/opreplay/opreplay/sim/process/virtual"
)

// startBusy starts a replica of the busy operator.
func startBusy(t testing.TB, w *World, name string, args ...string) *virtual.Process {
	t.Helper()
	p, err := w.Start(Program{Name: name, Path: guest("busy"), Args: args})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// createAll has a user create the operator's objects, ten a second.
func createAll(t testing.TB, w *World, n int) {
	c := w.user(t)
	for i := range n {
		w.Script(time.Second+time.Duration(i)*100*time.Millisecond, fmt.Sprintf("create deployment %d", i), func() error {
			_, err := c.AppsV1().Deployments("default").Create(context.Background(), deployment(i), metav1.CreateOptions{})
			return err
		})
	}
}

// holder is who has the operator's lease.
func holder(t testing.TB, w *World) string {
	t.Helper()
	l, err := w.user(t).CoordinationV1().Leases("default").Get(context.Background(), "busy", metav1.GetOptions{})
	if err != nil {
		return "nobody: " + err.Error()
	}
	if l.Spec.HolderIdentity == nil {
		return ""
	}
	return *l.Spec.HolderIdentity
}

// passes sums the objects' passes, which the operator counts in their status.
func passes(t testing.TB, w *World) (sum int) {
	t.Helper()
	list, err := w.user(t).AppsV1().Deployments("default").List(context.Background(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range list.Items {
		sum += int(d.Status.Replicas)
	}
	return sum
}

// An hour of two replicas with ten workers and 50 objects is the same each time.
func TestBusyHour(t *testing.T) {
	same(t, runs(3), func(t *testing.T) string {
		w := begin(t, Options{Seed: 5})
		startBusy(t, w, "one", "--leader-elect")
		startBusy(t, w, "two", "--leader-elect")
		createAll(t, w, 50)
		hash := play(t, w, time.Hour)
		// 25 objects every 30 seconds and 25 every five minutes: 120 and 12 passes in an hour, and each is
		// preceded by up to ten quick ones.
		if n := passes(t, w); n < 25*120 || n > 2*25*(120+12) {
			t.Errorf("%d passes", n)
		}
		events, err := w.user(t).EventsV1().Events("default").List(context.Background(), metav1.ListOptions{})
		if err != nil || len(events.Items) < 50 {
			t.Errorf("%d Events, %v", len(events.Items), err)
		}
		return hash
	})
}

// Another seed is another run.
func TestSeeds(t *testing.T) {
	hashes := map[string]bool{}
	for seed := range uint64(3) {
		w := begin(t, Options{Seed: seed})
		startBusy(t, w, "one")
		createAll(t, w, 5)
		hashes[play(t, w, time.Minute)] = true
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if len(hashes) != 3 {
		t.Errorf("three seeds gave %d runs", len(hashes))
	}
}

// The leader is killed at a write, its replica takes over, and it is started again.
func TestKilledAtWrite(t *testing.T) {
	same(t, 3, func(t *testing.T) string {
		var w *World
		var leader *virtual.Process
		w = begin(t, Options{Seed: 6, Step: func(s sim.Step) {
			if s.Kind == "request" && strings.HasPrefix(s.Subject, "UPDATE deployments default/d-03 status by one") {
				w.Kill(leader) // it has been executed, and the answer never comes
			}
		}})
		leader = startBusy(t, w, "one", "--leader-elect")
		w.After(time.Second, sim.Item{Kind: "process", Subject: "start two", Apply: func() error {
			startBusy(t, w, "two", "--leader-elect")
			return nil
		}})
		createAll(t, w, 5)
		play(t, w, 30*time.Second)
		if _, ended := leader.Exited(); !ended {
			t.Fatal("the leader was not killed")
		}
		if h := holder(t, w); !strings.HasPrefix(h, "two-0_") {
			t.Fatalf("the lease is %q's", h)
		}
		before := passes(t, w)
		startBusy(t, w, "one", "--leader-elect")
		hash := play(t, w, 10*time.Minute)
		if passes(t, w) <= before {
			t.Error("nobody went on")
		}
		if h := holder(t, w); !strings.HasPrefix(h, "two-0_") {
			t.Errorf("the lease is %q's", h)
		}
		return hash
	})
}

// The leader stands still for longer than its lease, the replica takes over, and the leader gives up when it
// goes on.
func TestLeaseLost(t *testing.T) {
	same(t, 3, func(t *testing.T) string {
		w := begin(t, Options{Seed: 7})
		leader := startBusy(t, w, "one", "--leader-elect")
		w.After(time.Second, sim.Item{Kind: "process", Subject: "start two", Apply: func() error {
			startBusy(t, w, "two", "--leader-elect")
			return nil
		}})
		createAll(t, w, 5)
		at := func(d time.Duration, what string, f func()) {
			w.After(d, sim.Item{Kind: "process", Subject: what, Apply: func() error { f(); return nil }})
		}
		at(20*time.Second, "pause one", leader.Pause)
		at(50*time.Second, "resume one", leader.Resume)
		play(t, w, 19*time.Second)
		if h := holder(t, w); !strings.HasPrefix(h, "one-0_") {
			t.Fatalf("the lease is %q's", h)
		}
		play(t, w, 30*time.Second)
		if h := holder(t, w); !strings.HasPrefix(h, "two-0_") {
			t.Fatalf("the lease is %q's", h)
		}
		hash := play(t, w, 5*time.Minute)
		if status, ended := leader.Exited(); !ended || status.Code != 1 {
			t.Errorf("the leader that lost its lease: ended %v, %+v", ended, status)
		}
		if !strings.Contains(w.Output(), "leader election lost") {
			t.Errorf("its output: %s", w.Output())
		}
		return hash
	})
}
