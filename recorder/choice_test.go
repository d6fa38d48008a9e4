package recorder_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"k8s.io/client-go/kubernetes"

	"github.com/opreplay/opreplay/recorder"
	"github.com/opreplay/opreplay/traces"
)

// newCgroup makes a cgroup at a path below the root of the given version's hierarchy.
func newCgroup(t testing.TB, version int, path string) string {
	t.Helper()
	var roots []string
	if version == 2 {
		roots = []string{"/sys/fs/cgroup/unified", "/sys/fs/cgroup"}
	} else {
		roots = []string{"/sys/fs/cgroup/pids", "/sys/fs/cgroup/memory"}
	}
	for _, root := range roots {
		if _, err := os.Stat(filepath.Join(root, "cgroup.procs")); err != nil {
			continue
		}
		if _, err := os.Stat(filepath.Join(root, "cgroup.controllers")); (err == nil) != (version == 2) {
			continue
		}
		dir := filepath.Join(root, path)
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Skipf("SKIPPED: making a cgroup takes root and a cgroup file system that can be written to: %v", err)
		}
		t.Cleanup(func() { // and those above it that were made for it
			for ; dir != root; dir = filepath.Dir(dir) {
				if err := os.Remove(dir); err != nil {
					return
				}
			}
		})
		return dir
	}
	t.Skipf("SKIPPED: no cgroups of version %d are mounted here", version)
	return ""
}

// direct starts the doer with the cluster's own kubeconfig, in a cgroup if there is one.
func direct(t testing.TB, path, ns, cgroup string) *exec.Cmd {
	t.Helper()
	// The shell enters the cgroup, and becomes the operator: so it is in there from its first instruction on.
	script := `[ -z "$1" ] || echo $$ > "$1/cgroup.procs"; exec "$2"`
	cmd := exec.Command("/bin/sh", "-c", script, "sh", cgroup, path)
	cmd.Env = append(os.Environ(), "KUBECONFIG="+live(t).KubeconfigFile(), "OPERATOR_NAMESPACE="+ns, "OPERATOR_WORD="+planted)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { end(cmd) })
	return cmd
}

func end(cmd *exec.Cmd) {
	if cmd.ProcessState == nil {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	}
}

// Processes are found by their command's name, their container or their pod, and found again after a restart; the
// trace says when each began and ended, and what it did is in it.
func TestCaptureFollowsInstances(t *testing.T) {
	needEBPF(t)
	config := live(t).Config()
	client := must[*kubernetes.Clientset](t)(kubernetes.NewForConfig(config))
	built := stripped(t, "doer", "./testdata/operator")
	const id = "4f2a9c0d1e5b6a7f8091a2b3c4d5e6f70112233445566778899aabbccddeeff0"
	for _, c := range []struct {
		name   string
		choose func(t *testing.T, ns string) (c recorder.Choice, cgroup string)
	}{
		{"command", func(*testing.T, string) (recorder.Choice, string) {
			return recorder.Choice{Comm: "doer-of-instances"}, "" // longer than the kernel keeps
		}},
		{"container", func(t *testing.T, ns string) (recorder.Choice, string) {
			return recorder.Choice{Container: id[:12]}, newCgroup(t, 1, "system.slice/docker-"+id+".scope")
		}},
		{"pod", func(t *testing.T, ns string) (recorder.Choice, string) {
			pod := must[*corev1.Pod](t)(client.CoreV1().Pods(ns).Create(t.Context(), &corev1.Pod{
				ObjectMeta: metav1.ObjectMeta{Name: "doer-0"},
				Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "doer", Image: "example.com/doer"}}},
			}, metav1.CreateOptions{}))
			slice := "kubepods.slice/kubepods-pod" + strings.ReplaceAll(string(pod.UID), "-", "_") + ".slice"
			return recorder.Choice{Pod: ns + "/doer-0"}, newCgroup(t, 2, slice+"/cri-containerd-"+id+".scope")
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			ns := newNamespace(t, config)
			_ = must[*corev1.ServiceAccount](t)(client.CoreV1().ServiceAccounts(ns).Create(t.Context(), &corev1.ServiceAccount{
				ObjectMeta: metav1.ObjectMeta{Name: "default"}, // which a pod needs, and no controller makes here
			}, metav1.CreateOptions{}))
			choice, cgroup := c.choose(t, ns)
			path := filepath.Join(t.TempDir(), "doer-of-instances")
			if err := os.Link(built, path); err != nil {
				t.Fatal(err)
			}
			r := record(t, recorder.Capture, recorder.Options{
				Config: config, Choice: choice, Resources: []string{"configmaps", "secrets"}, Namespaces: []string{ns},
			})
			awaitNote(r, "no such process yet")
			awaitNote(r, "the first lists are in")
			var pids []int
			for life := range 2 {
				cmd := direct(t, path, ns, cgroup)
				pids = append(pids, cmd.Process.Pid)
				awaitNote(r, fmt.Sprintf("process %d (doer-of-instances) is looked at", cmd.Process.Pid))
				order := fmt.Sprintf("order-%d", life)
				must[*corev1.ConfigMap](t)(client.CoreV1().ConfigMaps(ns).Create(t.Context(), &corev1.ConfigMap{
					ObjectMeta: metav1.ObjectMeta{Name: order}, Data: map[string]string{"do": "write"},
				}, metav1.CreateOptions{}))
				pass := await(r, "the pass", func(p *traces.Reconcile) bool { return p.Name == order })
				await(r, "a write of it", func(q *traces.Request) bool {
					return write(q.Verb) && q.ReconcileID == pass.Seq && q.Process == pass.Process
				})
				end(cmd)
				awaitNote(r, fmt.Sprintf("process %d (doer-of-instances) has ended", cmd.Process.Pid))
			}
			trace := r.end()
			operators := trace.Manifest().Operators
			if len(operators) != 1 || operators[0].Process != "doer-of-instances" || !operators[0].Probed || len(operators[0].Instances) != 2 {
				t.Fatalf("operators %+v", operators)
			}
			for i, in := range operators[0].Instances {
				if in.PID != pids[i] || in.Began.IsZero() || !in.Ended.After(in.Began) || i > 0 && in.Began.Before(operators[0].Instances[i-1].Ended) {
					t.Errorf("instance %d: %+v, of process %d", i, in, pids[i])
				}
			}
			sampled := map[int]bool{}
			for _, s := range rows[traces.Sample](t, trace) {
				sampled[int(s.PID)] = true
			}
			stated := 0
			for _, l := range trace.Manifest().Losses {
				if strings.Contains(l.Reason, "before it was found") {
					stated++
				}
			}
			if stated != 2 {
				t.Errorf("of two processes the beginning was not seen, and the trace says so of %d: %+v", stated, trace.Manifest().Losses)
			}
			for pid := range sampled {
				if pid != pids[0] && pid != pids[1] {
					t.Errorf("process %s was sampled", strconv.Itoa(pid))
				}
			}
		})
	}
}
