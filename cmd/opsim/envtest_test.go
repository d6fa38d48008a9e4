package main

import (
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	"github.com/opreplay/opreplay/internal/clitest"
)

// startTimeout is for a loaded machine.
const startTimeout = 2 * time.Minute

// envtest starts the stand-ins, several at a time, each with a world of its own, and makes users as it does on the
// real ones.
func TestEnvtest(t *testing.T) {
	assets := filepath.Join(t.TempDir(), "assets")
	if got := clitest.Run(t, "serve", "--assets", assets); got.Code != 0 {
		t.Fatalf("%+v", got)
	}
	clitest.Children(t)
	for name, want := range map[string]string{"etcd": "etcd Version: opsim", "kube-apiserver": "Kubernetes v"} {
		out, err := exec.CommandContext(t.Context(), filepath.Join(assets, name), "--version").Output()
		if err != nil || !strings.HasPrefix(string(out), want) {
			t.Errorf("%s --version: %q, %v", name, out, err)
		}
	}
	var envs [2]*envtest.Environment
	var configs [2]*rest.Config
	var all sync.WaitGroup
	for i := range envs {
		envs[i] = &envtest.Environment{BinaryAssetsDirectory: assets, ControlPlaneStartTimeout: startTimeout, ControlPlaneStopTimeout: startTimeout}
		all.Go(func() {
			var err error
			if configs[i], err = envs[i].Start(); err != nil {
				t.Errorf("start: %v", err)
			}
		})
	}
	all.Wait()
	defer func() {
		for _, e := range envs {
			if err := e.Stop(); err != nil {
				t.Errorf("stop: %v", err)
			}
		}
	}()
	if t.Failed() {
		t.FailNow()
	}
	one, other := kubernetes.NewForConfigOrDie(configs[0]), kubernetes.NewForConfigOrDie(configs[1])
	cm := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "a"}}
	if _, err := one.CoreV1().ConfigMaps("default").Create(t.Context(), cm, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := other.CoreV1().ConfigMaps("default").Get(t.Context(), "a", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("one world's object in the other: %v", err)
	}
	svc, err := one.CoreV1().Services("default").Get(t.Context(), "kubernetes", metav1.GetOptions{})
	if err != nil || svc.Spec.ClusterIP != "10.0.0.1" { // the first of --service-cluster-ip-range=10.0.0.0/24
		t.Errorf("the API server's Service: %v, %v", svc.Spec, err)
	}
	user, err := envs[0].AddUser(envtest.User{Name: "alice", Groups: []string{"staff"}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	alice := kubernetes.NewForConfigOrDie(user.Config())
	who, err := alice.AuthenticationV1().SelfSubjectReviews().Create(t.Context(), &authenticationv1.SelfSubjectReview{}, metav1.CreateOptions{})
	if err != nil || who.Status.UserInfo.Username != "alice" || !slices.Contains(who.Status.UserInfo.Groups, "staff") {
		t.Errorf("alice is %v, %v", who, err)
	}
	if _, err := alice.CoreV1().ConfigMaps("default").Get(t.Context(), "a", metav1.GetOptions{}); !apierrors.IsForbidden(err) {
		t.Errorf("alice, who has no role, reads: %v, want 403", err)
	}
}
