package cluster

import (
	"context"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/opreplay/opreplay/sim/process/virtual"
)

// creation is what came of a user's create.
type creation struct {
	obj  *appsv1.Deployment
	err  error
	took time.Duration
}

// createNamed has the user create a deployment now; it returns when the webhooks have answered.
func createNamed(t *testing.T, w *World, name string) creation {
	t.Helper()
	d := deployment(1)
	d.Name = name
	var c creation
	w.Script(0, "create "+name, func() error {
		began := w.Nanos()
		c.obj, c.err = w.user(t).AppsV1().Deployments("default").Create(context.Background(), d, metav1.CreateOptions{})
		c.took = time.Duration(w.Nanos() - began)
		return nil
	})
	play(t, w, 100*time.Second)
	return c
}

func startHooks(t *testing.T, w *World) *virtual.Process {
	p := startBusy(t, w, "busy", "--webhooks")
	play(t, w, 5*time.Second)
	return p
}

// The operator's own webhooks mutate and refuse, ask the API server meanwhile, and take their time by the
// world's clock; the operator goes on all the while.
func TestWebhooks(t *testing.T) {
	same(t, 3, func(t *testing.T) string {
		w := begin(t, Options{Seed: 8})
		p := startHooks(t, w)

		good := createNamed(t, w, "good")
		if good.err != nil || good.obj.Labels["mutated"] != "yes" || good.obj.Labels["pace"] != "slow" {
			t.Errorf("good: %v, labels %v\n%s", good.err, good.obj.Labels, w.Output())
		}
		// Two webhooks validate, 20 ms each.
		if good.took < 40*time.Millisecond || good.took > 200*time.Millisecond {
			t.Errorf("good took %v", good.took)
		}
		if bad := createNamed(t, w, "bad"); bad.err == nil || !strings.Contains(bad.err.Error(), `"validate0.busy.example" denied the request: bad names are not wanted`) {
			t.Errorf("bad: %v", bad.err)
		}
		// The time limit is five seconds for each of the two; the one that may be ignored does not decide.
		slow := createNamed(t, w, "slow")
		if slow.err == nil || !strings.Contains(slow.err.Error(), `failed calling webhook "validate0.busy.example"`) || !strings.Contains(slow.err.Error(), "deadline exceeded") {
			t.Errorf("slow: %v", slow.err)
		}
		if slow.took < 10*time.Second || slow.took > 11*time.Second {
			t.Errorf("slow took %v", slow.took)
		}
		w.Kill(p)
		if gone := createNamed(t, w, "gone"); !apierrors.IsInternalError(gone.err) || !strings.Contains(gone.err.Error(), "connection refused") {
			t.Errorf("gone: %v", gone.err)
		}
		return play(t, w, time.Second)
	})
}

// What a process writes is asked about too, and a process that dies while it waits leaves nothing behind.
func TestWebhookOfProcess(t *testing.T) {
	same(t, 3, func(t *testing.T) string {
		w := begin(t, Options{Seed: 9})
		startHooks(t, w)
		p, err := w.Start(Program{Name: "creator", Path: guest("creator"), Args: []string{"one", "bad", "slow"}, InCluster: true})
		if err != nil {
			t.Fatal(err)
		}
		play(t, w, 2*time.Second)
		for _, want := range []string{"one: yes <nil>\n", "bad:  admission webhook"} {
			if !strings.Contains(w.Output(), want) {
				t.Errorf("the output lacks %q:\n%s", want, w.Output())
			}
		}
		w.Kill(p) // in the midst of the third, which the webhook has not yet answered
		hash := play(t, w, 2*time.Minute)
		if _, err := w.user(t).AppsV1().Deployments("default").Get(context.Background(), "slow", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
			t.Errorf("slow: %v", err)
		}
		return hash
	})
}

// A webhook that nobody in the world has served is not called.
func TestForeignWebhook(t *testing.T) {
	w := begin(t, Options{Seed: 8})
	p := startHooks(t, w)
	w.Kill(p)
	kept := base.kept
	defer func() { base.kept = kept }()
	base.Keep() // with the configurations
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	w = begin(t, Options{Seed: 8})
	if c := createNamed(t, w, "bad"); c.err != nil || c.obj.Labels["mutated"] != "" {
		t.Errorf("%v, %v", c.err, c.obj)
	}
}
