package livecluster

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
)

func TestMain(m *testing.M) {
	if os.Getenv(victimEnv) != "" {
		victim()
	}
	code := m.Run()
	StopShared()
	os.Exit(code)
}

var (
	configMaps = schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}
	namespaces = schema.GroupVersionResource{Version: "v1", Resource: "namespaces"}
	crds       = schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"}
	rabbits    = schema.GroupVersionResource{Group: "zoo.example.com", Version: "v1", Resource: "rabbits"}
)

func client(t testing.TB, config *rest.Config) dynamic.Interface {
	t.Helper()
	c, err := dynamic.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// timed bounds what a test waits for.
func timed(t testing.TB) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	t.Cleanup(cancel)
	return ctx
}

func configMap(name string) *unstructured.Unstructured {
	u := &unstructured.Unstructured{}
	u.SetAPIVersion("v1")
	u.SetKind("ConfigMap")
	u.SetName(name)
	return u
}

// namespace makes a namespace that is the test's own: a shared cluster has seen other tests.
func namespace(ctx context.Context, t testing.TB, c *Cluster) string {
	t.Helper()
	u := &unstructured.Unstructured{}
	u.SetAPIVersion("v1")
	u.SetKind("Namespace")
	u.SetGenerateName("test-")
	u, err := client(t, c.Config()).Resource(namespaces).Create(ctx, u, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return u.GetName()
}

// until reads a watch until SEEN says yes.
func until(ctx context.Context, t testing.TB, w watch.Interface, seen func(watch.Event) bool) {
	t.Helper()
	defer w.Stop()
	for {
		select {
		case ev, open := <-w.ResultChan():
			if !open {
				t.Fatal("the watch ended")
			}
			if seen(ev) {
				return
			}
		case <-ctx.Done():
			t.Fatal("the watch never showed what was waited for")
		}
	}
}

const rabbitCRD = `
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: rabbits.zoo.example.com}
spec:
  group: zoo.example.com
  scope: Namespaced
  names: {plural: rabbits, singular: rabbit, kind: Rabbit}
  versions:
  - name: v1
    served: true
    storage: true
    schema:
      openAPIV3Schema:
        type: object
        properties:
          spec: {type: object, properties: {carrots: {type: integer, minimum: 1}}}
`

func TestCustomResourcesByKubectl(t *testing.T) {
	c := Shared(t, Options{})
	ctx := timed(t)
	kubectl, err := c.Kubectl()
	if err != nil {
		t.Fatal(err)
	}
	ns := namespace(ctx, t, c)
	run := func(stdin string, args ...string) (string, error) {
		cmd := exec.CommandContext(ctx, kubectl, append([]string{"--namespace=" + ns}, args...)...)
		cmd.Env = append(os.Environ(), "KUBECONFIG="+c.KubeconfigFile(), "HOME="+t.TempDir())
		cmd.Stdin = strings.NewReader(stdin)
		out, err := cmd.CombinedOutput()
		return string(out), err
	}
	if out, err := run(rabbitCRD, "apply", "-f", "-"); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	established(ctx, t, client(t, c.Config()))
	rabbit := "apiVersion: zoo.example.com/v1\nkind: Rabbit\nmetadata: {name: hazel}\nspec: {carrots: %d}\n"
	if out, err := run(fmt.Sprintf(rabbit, 0), "create", "-f", "-"); err == nil || !strings.Contains(out, "spec.carrots") {
		t.Errorf("the schema let no carrots pass: %v: %s", err, out)
	}
	if out, err := run(fmt.Sprintf(rabbit, 3), "create", "-f", "-"); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	hazel, err := client(t, c.Config()).Resource(rabbits).Namespace(ns).Get(ctx, "hazel", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if n, _, _ := unstructured.NestedInt64(hazel.Object, "spec", "carrots"); n != 3 {
		t.Errorf("hazel has %d carrots, want 3", n)
	}
	if out, err := run("", "version"); err != nil || !strings.Contains(out, "Server Version: "+c.Version()) {
		t.Errorf("kubectl version: %v: %s", err, out)
	}
}

func established(ctx context.Context, t *testing.T, c dynamic.Interface) {
	t.Helper()
	w, err := c.Resource(crds).Watch(ctx, metav1.ListOptions{FieldSelector: "metadata.name=rabbits.zoo.example.com"})
	if err != nil {
		t.Fatal(err)
	}
	until(ctx, t, w, func(ev watch.Event) bool {
		conditions, _, _ := unstructured.NestedSlice(ev.Object.(*unstructured.Unstructured).Object, "status", "conditions")
		for _, one := range conditions {
			if cond := one.(map[string]any); cond["type"] == "Established" && cond["status"] == "True" {
				return true
			}
		}
		return false
	})
}

func TestPermissionsAreThoseOfTheUser(t *testing.T) {
	c := Shared(t, Options{})
	ctx := timed(t)
	_, err := client(t, c.ConfigFor("peter")).Resource(configMaps).Namespace("default").List(ctx, metav1.ListOptions{})
	if !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), `"peter"`) {
		t.Errorf("a user without a role lists ConfigMaps: %v, want forbidden to \"peter\"", err)
	}
	if _, err := client(t, c.ConfigFor("flopsy", "system:masters")).Resource(configMaps).Namespace("default").List(ctx, metav1.ListOptions{}); err != nil {
		t.Errorf("a member of system:masters: %v", err)
	}
	nobody := c.Config()
	nobody.CertData, nobody.KeyData = nil, nil
	if _, err := client(t, nobody).Resource(configMaps).Namespace("default").List(ctx, metav1.ListOptions{}); !apierrors.IsForbidden(err) && !apierrors.IsUnauthorized(err) {
		t.Errorf("a client without a certificate lists ConfigMaps: %v", err)
	}
}

func TestControllersWork(t *testing.T) {
	t.Parallel()
	c := Start(t, Options{Controllers: []string{"garbage-collector-controller", "namespace-controller"}})
	ctx := timed(t)
	api := client(t, c.Config())
	maps := api.Resource(configMaps).Namespace("default")
	owner, err := maps.Create(ctx, configMap("owner"), metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	child := configMap("child")
	child.SetOwnerReferences([]metav1.OwnerReference{{APIVersion: "v1", Kind: "ConfigMap", Name: "owner", UID: owner.GetUID()}})
	if child, err = maps.Create(ctx, child, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	w, err := maps.Watch(ctx, metav1.ListOptions{FieldSelector: "metadata.name=child", ResourceVersion: child.GetResourceVersion()})
	if err != nil {
		t.Fatal(err)
	}
	if err := maps.Delete(ctx, "owner", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	until(ctx, t, w, func(ev watch.Event) bool { return ev.Type == watch.Deleted })
}

func TestUnknownControllerIsNamed(t *testing.T) {
	t.Parallel()
	_, err := Up(timed(t), Options{Controllers: []string{"carrot-controller"}})
	if err == nil || !strings.Contains(err.Error(), "carrot-controller") || !strings.Contains(err.Error(), "kube-controller-manager ended") {
		t.Fatalf("got %v, want an error with the end of the manager's log", err)
	}
}

func TestTwoSideBySide(t *testing.T) {
	t.Parallel()
	ctx := timed(t)
	a, b := Shared(t, Options{}), Start(t, Options{})
	ns := namespace(ctx, t, a)
	if _, err := client(t, a.Config()).Resource(configMaps).Namespace(ns).Create(ctx, configMap("only-in-a"), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	_, err := client(t, b.Config()).Resource(configMaps).Namespace(ns).Get(ctx, "only-in-a", metav1.GetOptions{})
	if !apierrors.IsNotFound(err) {
		t.Errorf("the second cluster shows the first one's object: %v", err)
	}
	b.Config().CAData = nil // a copy: must not harm the cluster's own
	if _, err := client(t, a.ConfigFor("admin", "system:masters")).Resource(namespaces).Get(ctx, "default", metav1.GetOptions{}); err != nil {
		t.Errorf("the first cluster with the second beside it: %v", err)
	}
	crossed := a.Config()
	crossed.Host = b.Config().Host
	if _, err := client(t, crossed).Resource(namespaces).Get(ctx, "default", metav1.GetOptions{}); err == nil {
		t.Error("the second cluster lets the first one's administrator in")
	}
}

func TestStopLeavesNothing(t *testing.T) {
	needProc(t)
	t.Parallel()
	c, err := Up(timed(t), Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Stop()
	if got := processesIn(t, c.Dir()); len(got) != 2 {
		t.Errorf("%v run in %s, want etcd and kube-apiserver", got, c.Dir())
	}
	guard := c.guard.shell.Process
	c.Stop()
	c.Stop() // again does nothing
	if left := processesIn(t, c.Dir()); len(left) > 0 {
		t.Errorf("left after Stop: %v", left)
	}
	if err := guard.Signal(syscall.Signal(0)); !errors.Is(err, os.ErrProcessDone) {
		t.Errorf("the guard is left after Stop: %v", err)
	}
	if _, err := os.Stat(c.Dir()); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the folder %s is left after Stop: %v", c.Dir(), err)
	}
	portIsFree(t, c)
}

// portIsFree asserts that the cluster's port can be had again.
func portIsFree(t *testing.T, c *Cluster) {
	t.Helper()
	u, err := url.Parse(c.Config().Host)
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", u.Host)
	if err != nil {
		t.Errorf("the port is not free: %v", err)
		return
	}
	_ = l.Close()
}

func TestGivenFolderIsKeptAndFoundAgain(t *testing.T) {
	t.Parallel()
	// Longer than a Unix socket's path may be.
	dir := filepath.Join(t.TempDir(), strings.Repeat("deep", 30), "cluster")
	ctx := timed(t)
	first, err := Up(ctx, Options{Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	defer first.Stop()
	if _, err := Up(ctx, Options{Dir: dir}); err == nil || !strings.Contains(err.Error(), "runs in "+dir) {
		t.Errorf("a second cluster in the same folder: %v", err)
	}
	if _, err := client(t, first.Config()).Resource(configMaps).Namespace("default").Create(ctx, configMap("kept"), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	first.Stop()
	second, err := Up(ctx, Options{Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	defer second.Stop()
	if _, err := client(t, second.Config()).Resource(configMaps).Namespace("default").Get(ctx, "kept", metav1.GetOptions{}); err != nil {
		t.Errorf("after a restart in the same folder: %v", err)
	}
}

func TestWaitTellsWhoDied(t *testing.T) {
	t.Parallel()
	c, err := Up(timed(t), Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Stop()
	if err := c.servers[0].cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	if err := c.Wait(timed(t)); err == nil || !strings.HasPrefix(err.Error(), "etcd ended (signal: killed)") {
		t.Errorf("got %v, want etcd's end", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	fine := &Cluster{}
	if err := fine.Wait(ctx); err != nil {
		t.Errorf("Wait with a context that ended: %v", err)
	}
}

func TestKubeconfigForIsPrivate(t *testing.T) {
	c := Shared(t, Options{})
	path, err := c.KubeconfigFor("system:serviceaccount:default:flopsy", "system:serviceaccounts")
	if err != nil {
		t.Fatal(err)
	}
	again, err := c.KubeconfigFor("system:serviceaccount:default:flopsy", "system:serviceaccounts")
	if err != nil || again != path {
		t.Errorf("the same user got %s and then %s (%v)", path, again, err)
	}
	other, err := c.KubeconfigFor("system:serviceaccount:default:flopsy")
	if err != nil || other == path {
		t.Errorf("the same user in other groups got the same file %s (%v)", other, err)
	}
	for _, f := range []string{path, c.KubeconfigFile()} {
		if info, err := os.Stat(f); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%s: %v %v, want mode 0600", f, info.Mode(), err)
		}
	}
	if info, err := os.Stat(c.Dir()); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("%s: %v %v, want mode 0700", c.Dir(), info.Mode(), err)
	}
}

func TestOptionsAreChecked(t *testing.T) {
	for _, c := range []struct {
		o    Options
		want string
	}{
		{Options{AuditWebhook: "http://192.0.2.1:80/audit"}, "loopback"},
		{Options{AuditWebhook: "https://127.0.0.1/audit"}, "http://"},
		{Options{AuditWebhook: "127.0.0.1:80"}, "AuditWebhook"},
		{Options{Controllers: []string{""}}, "Controllers"},
	} {
		if _, err := Up(t.Context(), c.o); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%+v: got %v, want an error with %q", c.o, err, c.want)
		}
	}
	for _, fine := range []string{"", "http://127.0.0.1:80/audit", "http://[::1]:80", "http://localhost:80"} {
		if err := (&Options{AuditWebhook: fine}).check(); err != nil {
			t.Errorf("%q: %v", fine, err)
		}
	}
}

// BenchmarkStart measures a cluster's way to ready and back.
func BenchmarkStart(b *testing.B) {
	var up, down time.Duration
	for b.Loop() {
		t0 := time.Now()
		c, err := Up(b.Context(), Options{})
		if err != nil {
			b.Fatal(err)
		}
		t1 := time.Now()
		c.Stop()
		up += t1.Sub(t0)
		down += time.Since(t1)
	}
	b.ReportMetric(up.Seconds()/float64(b.N), "s-to-ready")
	b.ReportMetric(down.Seconds()/float64(b.N), "s-to-stop")
}
