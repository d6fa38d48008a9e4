package recorder_test

import (
	"context"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"k8s.io/client-go/rest"

	"github.com/opreplay/opreplay/internal/cli"
	"github.com/opreplay/opreplay/recorder"
)

// closedPort is an address where nobody listens.
func closedPort(t *testing.T) string {
	t.Helper()
	l := must[net.Listener](t)((&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0"))
	defer func() { _ = l.Close() }()
	return l.Addr().String()
}

func TestBadInput(t *testing.T) {
	config := live(t).Config()
	taken := filepath.Join(t.TempDir(), "taken.optrace")
	if err := os.MkdirAll(filepath.Join(taken, "x"), 0o700); err != nil {
		t.Fatal(err)
	}
	capture := func(change func(*recorder.Options)) func(context.Context, string) error {
		return func(ctx context.Context, out string) error {
			o := recorder.Options{Out: out, Config: config}
			change(&o)
			_, err := recorder.Capture(ctx, o)
			return err
		}
	}
	run := func(command ...string) func(context.Context, string) error {
		return func(ctx context.Context, out string) error {
			_, err := recorder.Run(ctx, recorder.RunOptions{Options: recorder.Options{Out: out, Config: config}, Command: command})
			return err
		}
	}
	listen := func(address string) func(context.Context, string) error {
		return func(ctx context.Context, out string) error {
			_, err := recorder.Proxy(ctx, recorder.ProxyOptions{Options: recorder.Options{Out: out, Config: config}, Listen: address})
			return err
		}
	}
	proxy := func(o recorder.ProxyOptions) func(context.Context, string) error {
		return func(ctx context.Context, out string) error {
			o.Out, o.Config = out, config
			_, err := recorder.Proxy(ctx, o)
			return err
		}
	}
	load := func(a recorder.Access, env string) func(context.Context, string) error {
		return func(context.Context, string) error {
			t.Setenv("KUBECONFIG", env)
			_, _, err := a.Load()
			return err
		}
	}
	text := filepath.Join(t.TempDir(), "text")
	if err := os.WriteFile(text, []byte("no kubeconfig at all: {"), 0o600); err != nil {
		t.Fatal(err)
	}
	nowhere := filepath.Join(t.TempDir(), "nowhere")
	for name, c := range map[string]struct {
		do   func(context.Context, string) error
		want []string
	}{
		"unknown resource":      {capture(func(o *recorder.Options) { o.Resources = []string{"deploymens"} }), []string{"deploymens", "deployments.apps"}},
		"unknown group":         {capture(func(o *recorder.Options) { o.Resources = []string{"pods.apps"} }), []string{"pods.apps", "no such resource"}},
		"unknown exclude":       {capture(func(o *recorder.Options) { o.Exclude = []string{"xyzzy"} }), []string{"--exclude xyzzy", "kubectl api-resources"}},
		"not to be watched":     {capture(func(o *recorder.Options) { o.Resources = []string{"subjectaccessreviews"} }), []string{"subjectaccessreviews", "list and watch"}},
		"nothing left":          {capture(func(o *recorder.Options) { o.Resources, o.Exclude = []string{"pods"}, []string{"po"} }), []string{"nothing is left"}},
		"taken folder":          {capture(func(o *recorder.Options) { o.Out = taken }), []string{taken, "not empty"}},
		"no server":             {capture(func(o *recorder.Options) { o.Config = &rest.Config{Host: closedPort(t)} }), []string{"no Kubernetes API server answers at", "refused"}},
		"no command":            {run(), []string{"no operator command"}},
		"missing command":       {run("./nothing-here"), []string{"./nothing-here", "no such file"}},
		"command not on PATH":   {run("nothing-here"), []string{"nothing-here", "not on the PATH"}},
		"command no executable": {run(text), []string{text, "not an executable"}},
		"no such namespace":     {capture(func(o *recorder.Options) { o.Namespaces = []string{"nosuchns"} }), []string{"--namespace nosuchns", "no such namespace"}},
		"no namespace's name":   {capture(func(o *recorder.Options) { o.Namespaces = []string{"No_Such"} }), []string{"--namespace", "No_Such"}},
		"exclude from nothing":  {proxy(recorder.ProxyOptions{Options: recorder.Options{Exclude: []string{"xyzzy"}}}), []string{"--exclude xyzzy", "--capture"}},
		"kubeconfig nowhere":    {proxy(recorder.ProxyOptions{Kubeconfig: filepath.Join(text, "k")}), []string{"--write-kubeconfig", "no folder"}},
		"listen on all":         {listen("0.0.0.0:0"), []string{"0.0.0.0:0", "loopback"}},
		"listen on rubbish":     {listen("here"), []string{"here", "HOST:PORT"}},
		"missing kubeconfig":    {load(recorder.Access{Kubeconfig: nowhere}, ""), []string{nowhere, "no such file"}},
		"KUBECONFIG nowhere":    {load(recorder.Access{}, nowhere), []string{"KUBECONFIG", nowhere, "no such file"}},
		"kubeconfig of rubbish": {load(recorder.Access{Kubeconfig: text}, ""), []string{text}},
		"unknown context":       {load(recorder.Access{Kubeconfig: live(t).KubeconfigFile(), Context: "other"}, ""), []string{"other"}},
		"group without user":    {load(recorder.Access{Kubeconfig: live(t).KubeconfigFile(), AsGroups: []string{"g"}}, ""), []string{"--as"}},
	} {
		t.Run(name, func(t *testing.T) {
			out := filepath.Join(t.TempDir(), "t.optrace")
			err := c.do(t.Context(), out)
			if err == nil {
				t.Fatal("no error")
			}
			if code := cli.ExitCode(err); code != cli.ExitUsage {
				t.Errorf("exit code %d", code)
			}
			for _, w := range c.want {
				if !strings.Contains(err.Error(), w) {
					t.Errorf("%q is not in %q", w, err)
				}
			}
			if strings.Contains(err.Error(), "\n") || len(err.Error()) > 300 {
				t.Errorf("not one clear line: %q", err)
			}
			if _, err := os.Stat(out); err == nil {
				t.Errorf("a trace folder was left behind")
			}
		})
	}
}

func TestNames(t *testing.T) {
	config := live(t).Config()
	for _, c := range []struct{ name, stream string }{
		{"po", "core/pods"},
		{"Pod", "core/pods"},
		{"namespace", "core/namespaces"},
		{"deployments.apps", "apps/deployments"},
		{"deploy.v1.apps", "apps/deployments"},
		{"events", "core/events"},
		{"events.events.k8s.io", "events.k8s.io/events"},
	} {
		r := record(t, recorder.Capture, recorder.Options{Config: config, Resources: []string{c.name}, Duration: time.Millisecond})
		// There may be no object to see: the manifest tells.
		got := r.wait().Manifest().Resources
		if len(got) != 1 || strings.Replace(c.stream, "core/", "/", 1) != got[0].Group+"/"+got[0].Resource {
			t.Errorf("%s: %+v", c.name, got)
		}
	}
}

func TestInterruptedBeforeItBegan(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := recorder.Capture(ctx, recorder.Options{Out: filepath.Join(t.TempDir(), "t.optrace"), Config: live(t).Config()})
	if cli.ExitCode(err) != cli.ExitCannotRun || !strings.Contains(err.Error(), "interrupted") {
		t.Errorf("%v", err)
	}
}
