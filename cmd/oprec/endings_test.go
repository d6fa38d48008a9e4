package main

import (
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"

	"github.com/opreplay/opreplay/internal/clitest"
	"github.com/opreplay/opreplay/traces"
)

// How the operator ended is the exit code's to say, and the last line's; the trace is whole in any case.
func TestRunSaysHowTheOperatorEnded(t *testing.T) {
	config := kubeconfig(t, emptyAPI(t))
	for _, c := range []struct {
		name, script, want string
		code               int
	}{
		{"well", "exit 0", "exit code 0", 0},
		{"exit code", "exit 7", "the operator ended with exit code 7", 1},
		{"signal", "kill -SEGV $$", "the operator was killed by", 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			out := filepath.Join(t.TempDir(), "t.optrace")
			got := clitest.Run(t, "run", "--kubeconfig", config, "--out", out, "--no-capture", "--", "/bin/sh", "-c", c.script)
			if got.Code != c.code || !strings.Contains(got.Stderr, c.want) {
				t.Errorf("exit code %d, want %d; %q in\n%s", got.Code, c.code, c.want, got.Stderr)
			}
			if verify := clitest.Run(t, "verify", out); verify.Code != 0 {
				t.Errorf("verify: %s", verify.Stdout)
			}
		})
	}
}

// The -- before the command may be left out: what follows the command is its own all the same.
func TestRunWithoutDashes(t *testing.T) {
	out := filepath.Join(t.TempDir(), "t.optrace")
	got := clitest.Run(t, "run", "--kubeconfig", kubeconfig(t, emptyAPI(t)), "--out", out, "--no-capture", "/bin/echo", "--out", "mine")
	if got.Code != 0 || !strings.Contains(got.Stdout, "--out mine") {
		t.Errorf("exit code %d: %s%s", got.Code, got.Stdout, got.Stderr)
	}
}

// Whoever may see nothing is told so in a line, and no trace is left.
func TestCaptureOfNothing(t *testing.T) {
	config := kubeconfig(t, lists(t, func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusForbidden)
		_, _ = w.Write([]byte(`{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Forbidden","code":403}`))
	}))
	out := filepath.Join(t.TempDir(), "t.optrace")
	got := clitest.Run(t, "capture", "--kubeconfig", config, "--out", out, "--duration", "1m")
	if got.Code != 3 || !strings.Contains(got.Stderr, "may not list and watch any of the 2 resources") || strings.Count(got.Stderr, "\n") > 2 {
		t.Errorf("exit code %d:\n%s", got.Code, got.Stderr)
	}
	if _, err := traces.Open(out); err == nil {
		t.Error("a trace of nothing is left")
	}
}

// A resource whose first list had not come when the recording ended is not like one without objects.
func TestCaptureThatEndsTooEarly(t *testing.T) {
	never := make(chan struct{})
	t.Cleanup(func() { close(never) })
	config := kubeconfig(t, lists(t, func(_ http.ResponseWriter, r *http.Request) {
		select {
		case <-r.Context().Done():
		case <-never:
		}
	}))
	out := filepath.Join(t.TempDir(), "t.optrace")
	if got := clitest.Run(t, "capture", "--kubeconfig", config, "--out", out, "--duration", "1s"); got.Code != 0 {
		t.Fatalf("exit code %d: %s", got.Code, got.Stderr)
	}
	trace, err := traces.Open(out)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = trace.Close() }()
	var sources []string
	for _, l := range trace.Manifest().Losses {
		if l.Reason == "the recording ended before its first list" {
			sources = append(sources, l.Source)
		}
	}
	if strings.Join(sources, " ") != "capture/core/configmaps capture/core/pods" {
		t.Errorf("losses: %+v", trace.Manifest().Losses)
	}
}

// lists is an API server that serves ConfigMaps and Pods, whose lists and watches are HANDLER's.
func lists(t *testing.T, handler http.HandlerFunc) string {
	t.Helper()
	answers := map[string]string{
		"/version": `{"major":"1","minor":"37","gitVersion":"v1.37.2"}`,
		"/api":     `{"kind":"APIVersions","versions":["v1"]}`,
		"/apis":    `{"kind":"APIGroupList","apiVersion":"v1","groups":[]}`,
		"/api/v1": `{"kind":"APIResourceList","groupVersion":"v1","resources":[` +
			`{"name":"configmaps","singularName":"configmap","namespaced":true,"kind":"ConfigMap","verbs":["get","list","watch"]},` +
			`{"name":"pods","singularName":"pod","namespaced":true,"kind":"Pod","verbs":["get","list","watch"]}]}`,
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		switch answer, ok := answers[r.URL.Path]; {
		case ok:
			_, _ = w.Write([]byte(answer))
		case r.URL.Path == "/api/v1/configmaps", r.URL.Path == "/api/v1/pods":
			handler(w, r)
		default:
			http.NotFound(w, r)
		}
	}))
	t.Cleanup(server.CloseClientConnections)
	return server.URL
}
