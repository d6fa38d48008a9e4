package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/opreplay/opreplay/internal/livecluster"
	"github.com/opreplay/opreplay/sim/process"
)

// kubectl's everyday verbs print the same against opsim serve as against a real API server.
func TestKubectlLooksAlike(t *testing.T) {
	cluster := livecluster.Start(t, livecluster.Options{})
	kubectl, err := cluster.Kubectl()
	if err != nil {
		t.Fatal(err)
	}
	_, noDiff := exec.LookPath("diff")
	ours := start(t, "opsim", "serve", "--writable", "--kubeconfig", "kubeconfig")
	ours.await("until ^C")
	sides := [2]*kubectlUser{
		newKubectlUser(t, kubectl, cluster.KubeconfigFile()),
		newKubectlUser(t, kubectl, filepath.Join(ours.cmd.Dir, "kubeconfig")),
	}
	for _, line := range script(t) {
		words, err := process.Split(line)
		if err != nil {
			t.Fatalf("%s: %v", line, err)
		}
		if words[0] == "diff" && noDiff != nil {
			t.Run(line, func(t *testing.T) {
				t.Skip("SKIPPED: kubectl diff needs the program diff, which is not on the PATH")
			})
			continue
		}
		var said [2]string
		var both sync.WaitGroup
		for i, side := range sides {
			both.Go(func() { said[i] = side.run(t, words) })
		}
		both.Wait()
		if d := cmp.Diff(strings.Split(said[0], "\n"), strings.Split(said[1], "\n")); d != "" {
			t.Errorf("kubectl %s: the real API server's (-) and ours (+) differ:\n%s", line, d)
		}
	}
}

// script is the lines of the script.
func script(t *testing.T) []string {
	t.Helper()
	text, err := os.ReadFile("testdata/kubectl/script.txt")
	if err != nil {
		t.Fatal(err)
	}
	var lines []string
	for line := range strings.Lines(string(text)) {
		if line = strings.TrimSpace(line); line != "" && line[0] != '#' {
			lines = append(lines, line)
		}
	}
	return lines
}

// kubectlUser is somebody with a kubectl, a kubeconfig and the test's manifests.
type kubectlUser struct {
	ctx          context.Context
	kubectl, dir string
}

func newKubectlUser(t *testing.T, kubectl, kubeconfig string) *kubectlUser {
	t.Helper()
	u := &kubectlUser{ctx: within(t), kubectl: kubectl, dir: t.TempDir()}
	if err := os.CopyFS(u.dir, os.DirFS("testdata/kubectl")); err != nil {
		t.Fatal(err)
	}
	config, err := clientcmd.LoadFromFile(kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	config.Contexts[config.CurrentContext].Namespace = "shop"
	if err := clientcmd.WriteToFile(*config, filepath.Join(u.dir, "kubeconfig")); err != nil {
		t.Fatal(err)
	}
	return u
}

// run runs a line of the script and gives what it prints, without what no two clusters share.
func (u *kubectlUser) run(t *testing.T, words []string) string {
	t.Helper()
	env := []string{"KUBECONFIG=" + filepath.Join(u.dir, "kubeconfig"), "HOME=" + u.dir, "PATH=" + os.Getenv("PATH"), "TMPDIR=" + u.dir}
	for strings.HasPrefix(words[0], "KUBE_") {
		env, words = append(env, words[0]), words[1:]
	}
	cmd := exec.CommandContext(u.ctx, u.kubectl, words...)
	cmd.Dir, cmd.Env = u.dir, env
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	var failed *exec.ExitError // its exit code is compared
	if err := cmd.Run(); err != nil && (!errors.As(err, &failed) || !failed.Exited()) {
		t.Errorf("kubectl %s: %v", strings.Join(words, " "), err)
	}
	return normal(fmt.Sprintf("exit code %d\n%s\n%s", cmd.ProcessState.ExitCode(), indented(stdout.String()), stderr.String()), u.dir)
}

// indented spreads a line of JSON, so that a difference in it can be read.
func indented(text string) string {
	var out bytes.Buffer
	if strings.HasPrefix(text, "{") && json.Indent(&out, []byte(text), "", " ") == nil {
		return out.String()
	}
	return text
}

// unlike is what differs between any two clusters, and what stands for it.
var unlike = []struct {
	what *regexp.Regexp
	as   string
}{
	{regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}`), "UID"},
	{regexp.MustCompile(`(?i)(resource ?version"?: +)"?\d+"?`), "${1}VERSION"},
	{regexp.MustCompile(`https://127\.0\.0\.1:\d+`), "SERVER"},
	{regexp.MustCompile(`127\.0\.0\.1:\d+`), "ADDRESS"},
	{regexp.MustCompile(`\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d[.\d]*(Z| \+0000)`), "TIME"},
	{regexp.MustCompile(`\w{3}, \d\d \w{3} \d{4} \d\d:\d\d:\d\d \+0000`), "TIME"},
	// Minutes have two digits at most in a test; millicores, which are no times, have three in its manifests.
	{regexp.MustCompile(`\b(\d{1,2}m(\d+s)?|\d+(\.\d+)?(ms|s|h))\b`), "AGO"},
	{regexp.MustCompile(`\b10(\.\d+){3}\b`), "IP"},
	{regexp.MustCompile(`\b3[0-2]\d{3}\b`), "PORT"},
	{regexp.MustCompile(`(LIVE|MERGED)-\d+`), "$1"},
	{regexp.MustCompile(`kubectl-edit-\d+`), "kubectl-edit"},
	{regexp.MustCompile(`(?m)^[EWI]\d{4} \d\d:\d\d:\d\d\.\d+ +\d+ `), "LOG "},
	{regexp.MustCompile(`go1[.\d]+`), "go1"},
	{regexp.MustCompile(`[ \t]+`), " "}, // columns are as wide as their widest cell
	{regexp.MustCompile(`(?m) $`), ""},
	// Not served, and said so in sim/apiserver's doc.go: they are about other programs.
	{regexp.MustCompile(`(?m)^componentstatuses .*\n`), ""},
}

// TestUnlikeKeepsQuantities: what is taken for a time is none of CPU.
func TestUnlikeKeepsQuantities(t *testing.T) {
	for text, want := range map[string]string{
		"cpu: 200m": "cpu: 200m", "2m5s ago": "AGO ago", "a Running 119s": "a Running AGO", "12m": "AGO", "1.5s": "AGO", "24h": "AGO", "64Mi": "64Mi",
	} {
		if got := normal(text, "/none"); got != want {
			t.Errorf("%s: %s, want %s", text, got, want)
		}
	}
}

func normal(text, dir string) string {
	text = strings.ReplaceAll(text, dir, "DIR")
	for _, u := range unlike {
		text = u.what.ReplaceAllString(text, u.as)
	}
	return text
}
