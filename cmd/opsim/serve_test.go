package main

import (
	"bufio"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/opreplay/opreplay/internal/clitest"
)

// serving is an opsim serve at work.
type serving struct {
	*kubernetes.Clientset
	Kubeconfig, Time string
	Seq              int64
	Writable         bool
	cmd              *exec.Cmd
}

// serveWorld starts opsim serve and waits until it serves.
func serveWorld(t *testing.T, args ...string) *serving {
	t.Helper()
	s := &serving{cmd: clitest.Command(t, append([]string{"serve", "-o", "json"}, args...)...)}
	out, err := s.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	s.cmd.Stderr = os.Stderr
	if err := s.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.end(t) })
	line, err := bufio.NewReader(out).ReadBytes('\n')
	if err != nil {
		t.Fatalf("opsim %v ended before it served: %v", args, err)
	}
	if err := json.Unmarshal(line, s); err != nil {
		t.Fatal(err)
	}
	config, err := clientcmd.BuildConfigFromFlags("", s.Kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	s.Clientset = kubernetes.NewForConfigOrDie(config)
	return s
}

// end ends it, and asserts that it ends well and takes its kubeconfig along.
func (s *serving) end(t *testing.T) {
	if s.cmd.ProcessState != nil {
		return
	}
	if err := s.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := s.cmd.Wait(); err != nil {
		t.Errorf("the end: %v", err)
	}
	if _, err := os.Stat(s.Kubeconfig); err == nil {
		t.Errorf("%s is still there", s.Kubeconfig)
	}
}

func TestServeThePast(t *testing.T) {
	file := filepath.Join(t.TempDir(), "k")
	s := serveWorld(t, clitest.Trace(t), "--at", "41", "--kubeconfig", file)
	info, err := os.Stat(file)
	if err != nil {
		t.Fatal(err)
	}
	if info.Mode().Perm() != 0o600 {
		t.Errorf("the kubeconfig has mode %v", info.Mode())
	}
	if s.Seq != 41 || s.Writable || s.Time != "2026-01-01T00:00:00.04Z" {
		t.Errorf("announced: row %d at %s, writable %v", s.Seq, s.Time, s.Writable)
	}
	cm, err := s.CoreV1().ConfigMaps("n").Get(t.Context(), "a", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if cm.UID != "u" || cm.ResourceVersion != "41" { // the trace's row 41 is version 41
		t.Errorf("at row 41 the object is %s at version %s", cm.UID, cm.ResourceVersion)
	}
	if _, err := s.CoreV1().ConfigMaps("n").Update(t.Context(), cm, metav1.UpdateOptions{}); !apierrors.IsMethodNotSupported(err) {
		t.Errorf("an update: %v, want 405", err)
	}
}

func TestServeALiveWorld(t *testing.T) {
	s := serveWorld(t, clitest.Trace(t), "--writable")
	cm, err := s.CoreV1().ConfigMaps("n").Get(t.Context(), "a", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	cm.Data = map[string]string{"k": "v"}
	if cm, err = s.CoreV1().ConfigMaps("n").Update(t.Context(), cm, metav1.UpdateOptions{}); err != nil || cm.UID != "u" {
		t.Errorf("an update: %v, %v", cm, err)
	}
	s.end(t)
	empty := serveWorld(t, "--writable")
	if _, err := empty.CoreV1().ConfigMaps("default").Create(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "a"}}, metav1.CreateOptions{}); err != nil {
		t.Error(err)
	}
}

func TestAssets(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "assets")
	for range 2 { // the second time over the first's
		if got := clitest.Run(t, "serve", "--assets", dir); got.Code != 0 || got.Stdout != "export KUBEBUILDER_ASSETS="+dir+"\n" {
			t.Fatalf("%+v", got)
		}
	}
	for name, says := range map[string]string{"kube-apiserver": "--secure-port", "etcd": "--unsafe-no-fsync"} {
		cmd := clitest.Command(t, "--help")
		cmd.Path, cmd.Args[0] = filepath.Join(dir, name), filepath.Join(dir, name)
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Errorf("%s --help: %v", name, err)
		}
		if !strings.Contains(string(out), says) || strings.Contains(string(out), "--insecure-port") {
			t.Errorf("%s --help: envtest asks it for its flags:\n%s", name, out)
		}
	}
	other := t.TempDir()
	if err := os.WriteFile(filepath.Join(other, "etcd"), []byte("a real one"), 0o600); err != nil {
		t.Fatal(err)
	}
	clitest.Refuses(t, []string{"serve", "--assets", other}, "etcd", "is there already")
}
