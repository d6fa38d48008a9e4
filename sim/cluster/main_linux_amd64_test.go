package cluster

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/kubernetes"

	"github.com/opreplay/opreplay/sim"
)

var (
	guests string // where TestMain puts the programs of testdata
	base   *Base
)

func TestMain(m *testing.M) {
	code, err := testMain(m)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

func testMain(m *testing.M) (int, error) {
	dir, err := os.MkdirTemp("", "guests")
	if err != nil {
		return 0, err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	guests = dir
	if err := build("0", dir+"/", "./testdata/busy", "./testdata/converter", "./testdata/crds", "./testdata/creator", "./testdata/idle", "./testdata/incluster", "./testdata/h2only"); err != nil {
		return 0, err
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if base, err = NewBase(ctx, 1); err != nil {
		return 0, err
	}
	defer base.Close()
	if err := setUp(ctx); err != nil {
		return 0, err
	}
	base.Keep()
	return m.Run(), nil
}

// build builds guests, as they would be built for a cluster.
func build(cgo, to string, pkgs ...string) error {
	cmd := exec.CommandContext(context.Background(), "go", append([]string{"build", "-trimpath", "-o", to}, pkgs...)...)
	cmd.Env = append(os.Environ(), "CGO_ENABLED="+cgo, "GOFLAGS=-trimpath")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("build guests: %w\n%s", err, out)
	}
	return nil
}

// setUp makes what every world of the tests has: the Service of the busy operator's webhooks.
func setUp(ctx context.Context) error {
	c, err := kubernetes.NewForConfig(base.Admin())
	if err != nil {
		return err
	}
	_, err = c.CoreV1().Services("default").Create(ctx, &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: "busy"},
		Spec: corev1.ServiceSpec{
			Selector: map[string]string{"app": "busy"},
			Ports:    []corev1.ServicePort{{Port: 443, TargetPort: intstr.FromInt32(9443)}},
		},
	}, metav1.CreateOptions{})
	return err
}

// begin begins a world that ends with the test.
func begin(t testing.TB, o Options) *World {
	t.Helper()
	if dir := os.Getenv("CLUSTER_LOGS"); dir != "" { // to compare two runs that differ
		logs++
		f, err := os.Create(filepath.Join(dir, fmt.Sprintf("traps-%03d", logs)))
		if err != nil {
			t.Fatal(err)
		}
		o.TrapLog = f
		steps, err := os.Create(filepath.Join(dir, fmt.Sprintf("steps-%03d", logs)))
		if err != nil {
			t.Fatal(err)
		}
		step := o.Step
		o.Step = func(s sim.Step) {
			_, _ = fmt.Fprintln(steps, s.N, s.At, s.Kind, s.Subject, s.Choice, s.Of)
			if step != nil {
				step(s)
			}
		}
	}
	w, err := base.Begin(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := w.Close(); err != nil {
			t.Error(err)
		}
	})
	return w
}

var logs int

func (w *World) user(t testing.TB) *kubernetes.Clientset {
	t.Helper()
	c, err := kubernetes.NewForConfig(w.User("user"))
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func guest(name string) string { return filepath.Join(guests, name) }

// deployment is an object for the busy operator: every other one is looked at every five minutes.
func deployment(i int) *appsv1.Deployment {
	labels := map[string]string{"app": fmt.Sprintf("d-%02d", i)}
	d := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("d-%02d", i), Namespace: "default"}}
	d.Spec.Selector = &metav1.LabelSelector{MatchLabels: labels}
	d.Spec.Template.Labels = labels
	d.Spec.Template.Spec.Containers = []corev1.Container{{Name: "c", Image: "example.com/c:1"}}
	if i%2 == 1 {
		d.Labels = map[string]string{"pace": "slow"}
	}
	return d
}

// play runs a world for D and says what it was. It fails if a run was not under control.
func play(t testing.TB, w *World, d time.Duration) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 15*time.Minute) // against a world that hangs
	defer cancel()
	if err := w.Run(ctx, d, nil); err != nil {
		t.Fatalf("%v\n%s", err, w.Output())
	}
	if st := w.Stats(); !st.Deterministic {
		t.Errorf("not deterministic: %v", st.Reasons)
	}
	return w.Hash()
}

// same runs f n times and demands the same each time.
func same(t *testing.T, n int, f func(t *testing.T) string) {
	t.Helper()
	var first string
	for i := range n {
		t.Run(fmt.Sprint(i+1), func(t *testing.T) {
			switch got := f(t); {
			case first == "":
				first = got
			case got != first:
				t.Errorf("run %d differs:\n%s\nfirst:\n%s", i+1, got, first)
			}
		})
		if t.Failed() {
			return
		}
	}
	t.Logf("%d of %d runs identical: %s", n, n, first)
}

// runs is N, or what CLUSTER_RUNS says.
func runs(n int) int {
	if v, err := strconv.Atoi(os.Getenv("CLUSTER_RUNS")); err == nil && v > 0 {
		return v
	}
	return n
}
