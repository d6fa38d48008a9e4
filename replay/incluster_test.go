package replay

import (
	"context"
	"path/filepath"
	"testing"

	"github.com/opreplay/opreplay/internal/cli"
	"github.com/opreplay/opreplay/sim/cluster"
)

// An operator that is shown a pod's files in place of a kubeconfig makes its recorded writes, and does so the
// same way each time.
func TestReplayInCluster(t *testing.T) {
	needVirtual(t)
	var hash string
	for range 3 {
		k := caseTask(t, "orphanfinalizer", "--fixed")
		r, _ := k.run(t, func(o *Options) { o.InCluster = InClusterAlways })
		if !r.Deterministic || r.Divergence.Missing > 0 {
			t.Fatalf("deterministic: %v %v; missing: %v", r.Deterministic, r.Reasons, r.Divergence.Missing)
		}
		if hash == "" {
			hash = r.Hash
		} else if r.Hash != hash {
			t.Errorf("hash %s, before it %s", r.Hash, hash)
		}
	}
	r, _ := caseTask(t, "orphanfinalizer", "--fixed").run(t)
	if r.Hash == hash {
		t.Error("it made no difference")
	}
}

func TestInClusterRule(t *testing.T) {
	robot := Identity{Users: []string{"system:serviceaccount:ops:robot"}}
	for _, c := range []struct {
		when    InCluster
		id      Identity
		command []string
		want    string
	}{
		{InClusterAuto, robot, []string{"m"}, "ops/robot"},
		{"", robot, []string{"m"}, "ops/robot"},
		{InClusterAuto, robot, []string{"m", "--kubeconfig={kubeconfig}"}, ""},
		{InClusterAuto, Identity{Users: []string{"alice"}}, []string{"m"}, ""},
		{InClusterNever, robot, []string{"m"}, ""},
		{InClusterAlways, Identity{Users: []string{"alice"}}, []string{"m"}, "default/op"},
		{InClusterAlways, robot, []string{"m", "{kubeconfig}"}, "ops/robot"},
	} {
		op := Operator{Name: "op", Command: c.command, Identity: c.id}
		got := ""
		if sa, ok := op.inCluster(c.when); ok {
			got = sa.Namespace + "/" + sa.Name
		}
		if got != c.want {
			t.Errorf("%q, %v, %q: %q, want %q", c.when, c.id.Users, c.command, got, c.want)
		}
	}
	k := caseTask(t, "orphanfinalizer")
	o, err := k.options()
	if err != nil {
		t.Fatal(err)
	}
	o.Out, o.Clock, o.InCluster = filepath.Join(t.TempDir(), "run"), ClockWall, InClusterAlways
	if _, err := Run(context.Background(), o); cli.ExitCode(err) != 2 {
		t.Errorf("in-cluster on the wall clock: %v", err)
	}
	if _, ok := cluster.ParseServiceAccount("system:serviceaccount:x"); ok {
		t.Error("half a name is a service account")
	}
}
