package main

import (
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"

	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/opreplay/opreplay/internal/clitest"
)

func TestMain(m *testing.M) { clitest.Main(m, main) }

// What is no trace is refused by every command that reads one.
func TestBadTraces(t *testing.T) {
	for _, bad := range clitest.BadTraces(t) {
		for _, command := range []string{"inspect", "verify", "repair"} {
			t.Run(command+"/"+bad.Name, func(t *testing.T) {
				clitest.Refuses(t, []string{command, bad.Dir}, bad.Mentions...)
			})
		}
	}
}

func TestBadUsage(t *testing.T) {
	missing := filepath.Join(t.TempDir(), "nosuch.kubeconfig")
	nowhere := kubeconfig(t, "https://127.0.0.1:1")
	server := kubeconfig(t, emptyAPI(t))
	taken := clitest.Trace(t)
	out := filepath.Join(t.TempDir(), "new.optrace")
	for _, c := range []struct {
		name     string
		args     []string
		mentions []string
	}{
		{"capture, kubeconfig that is not there", []string{"capture", "--kubeconfig", missing, "--out", out}, []string{missing}},
		{"proxy, kubeconfig that is not there", []string{"proxy", "--kubeconfig", missing, "--out", out}, []string{missing}},
		{"run, kubeconfig that is not there", []string{"run", "--kubeconfig", missing, "--out", out, "--", "true"}, []string{missing}},
		{"capture, kubeconfig that points nowhere", []string{"capture", "--kubeconfig", nowhere, "--out", out}, []string{"127.0.0.1:1"}},
		{"proxy, kubeconfig that points nowhere", []string{"proxy", "--kubeconfig", nowhere, "--out", out}, []string{"127.0.0.1:1"}},
		{"run, kubeconfig that points nowhere", []string{"run", "--kubeconfig", nowhere, "--out", out, "--", "true"}, []string{"127.0.0.1:1"}},
		{"run, operator that is not there", []string{"run", "--kubeconfig", server, "--out", out, "--", "./nosuch-operator"}, []string{"nosuch-operator"}},
		{"capture, unknown resource", []string{"capture", "--kubeconfig", server, "--out", out, "--resource", "nosuchthings"}, []string{"nosuchthings"}},
		{"capture, trace that is there already", []string{"capture", "--kubeconfig", server, "--out", taken}, []string{taken}},
		{"run, unknown --ebpf", []string{"run", "--kubeconfig", server, "--out", out, "--ebpf", "sometimes", "--", "true"}, []string{"sometimes", "auto"}},
		{"run, negative --hz", []string{"run", "--kubeconfig", server, "--out", out, "--hz", "-3", "--", "true"}, []string{"-3"}},
		{"run, --hz 0", []string{"run", "--kubeconfig", server, "--out", out, "--hz", "0", "--", "true"}, []string{"--hz 0", "1 to 10000"}},
		{"run, --hz for nothing", []string{"run", "--kubeconfig", server, "--out", out, "--ebpf", "off", "--hz", "9", "--", "true"}, []string{"--hz"}},
		{"capture, no process", []string{"capture", "--kubeconfig", server, "--out", out, "--pid", "0"}, []string{"--pid 0"}},
		{"capture, two ways to choose", []string{"capture", "--kubeconfig", server, "--out", out, "--pid", "1", "--comm", "manager"}, []string{"pid", "comm"}},
		{"capture, a command with its path", []string{"capture", "--kubeconfig", server, "--out", out, "--comm", "/usr/bin/manager"}, []string{"--comm /usr/bin/manager", "without its path"}},
		{"capture, too little of a container", []string{"capture", "--kubeconfig", server, "--out", out, "--container", "12ab"}, []string{"--container 12ab", "6"}},
		{"capture, a pod without its namespace", []string{"capture", "--kubeconfig", server, "--out", out, "--pod", "manager"}, []string{"--pod manager", "NAMESPACE/NAME"}},
		{"capture, metrics for the world", []string{"capture", "--kubeconfig", server, "--out", out, "--metrics-addr", "0.0.0.0:9464"}, []string{"--metrics-addr 0.0.0.0:9464", "loopback"}},
		{"capture, metrics nowhere", []string{"capture", "--kubeconfig", server, "--out", out, "--metrics-addr", "here"}, []string{"--metrics-addr here", "HOST:PORT"}},
		{"capture, process that is not there", []string{"capture", "--kubeconfig", server, "--out", out, "--pid", "1999999999"}, []string{"1999999999"}},
		{"capture, --hz for nothing", []string{"capture", "--kubeconfig", server, "--out", out, "--hz", "9"}, []string{"--hz", "--pid"}},
		{"run, unknown --kernel-events", []string{"run", "--kubeconfig", server, "--out", out, "--kernel-events", "refused,floods", "--", "true"}, []string{"--kernel-events floods", "read-loops"}},
		{"run, no reads", []string{"run", "--kubeconfig", server, "--out", out, "--kernel-events", "all", "--read-loop-rate", "0", "--", "true"}, []string{"--read-loop-rate 0"}},
		{"run, half a second", []string{"run", "--kubeconfig", server, "--out", out, "--kernel-events", "all", "--read-loop-hold", "500ms", "--", "true"}, []string{"--read-loop-hold 500ms"}},
		{"run, loops that are not looked for", []string{"run", "--kubeconfig", server, "--out", out, "--read-loop-rate", "9", "--", "true"}, []string{"--read-loop-rate", "read-loops"}},
		{"run, --kernel-events for nothing", []string{"run", "--kubeconfig", server, "--out", out, "--ebpf", "off", "--kernel-events", "all", "--", "true"}, []string{"--kernel-events"}},
		{"capture, --kernel-events for nothing", []string{"capture", "--kubeconfig", server, "--out", out, "--kernel-events", "all"}, []string{"--kernel-events", "--pid"}},
		{"capture, an endpoint of no kind", []string{"capture", "--kubeconfig", server, "--out", out, "--scrape", "127.0.0.1:8080"}, []string{"--scrape 127.0.0.1:8080", "http://"}},
		{"run, an endpoint with a password", []string{"run", "--kubeconfig", server, "--out", out, "--scrape", "http://me:word@127.0.0.1", "--", "true"}, []string{"--scrape http://me:xxxxx@", "--scrape-token-file"}},
		{"run, all the time", []string{"run", "--kubeconfig", server, "--out", out, "--scrape", "http://127.0.0.1", "--scrape-interval", "0", "--", "true"}, []string{"--scrape-interval 0"}},
		{"run, how to scrape nothing", []string{"run", "--kubeconfig", server, "--out", out, "--scrape-interval", "5s", "--", "true"}, []string{"--scrape-interval", "--scrape"}},
		{"capture, no --out", []string{"capture", "--kubeconfig", server}, []string{"out"}},
	} {
		t.Run(c.name, func(t *testing.T) { clitest.Refuses(t, c.args, c.mentions...) })
	}
	if _, err := os.Stat(out); err == nil {
		t.Errorf("a refused command left %s", out)
	}
}

// emptyAPI is an API server that serves nothing but ConfigMaps, and of them none.
func emptyAPI(t *testing.T) string {
	t.Helper()
	answers := map[string]string{
		"/version":           `{"major":"1","minor":"37","gitVersion":"v1.37.2"}`,
		"/api":               `{"kind":"APIVersions","versions":["v1"]}`,
		"/apis":              `{"kind":"APIGroupList","apiVersion":"v1","groups":[]}`,
		"/api/v1":            `{"kind":"APIResourceList","groupVersion":"v1","resources":[{"name":"configmaps","singularName":"configmap","namespaced":true,"kind":"ConfigMap","verbs":["get","list","watch"]}]}`,
		"/api/v1/configmaps": `{"kind":"ConfigMapList","apiVersion":"v1","metadata":{"resourceVersion":"1"},"items":[]}`,
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		answer, ok := answers[r.URL.Path]
		if !ok {
			http.NotFound(w, r)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write([]byte(answer))
	}))
	t.Cleanup(server.Close)
	return server.URL
}

func kubeconfig(t *testing.T, server string) string {
	t.Helper()
	config := clientcmdapi.NewConfig()
	config.Clusters["c"] = &clientcmdapi.Cluster{Server: server}
	config.Contexts["c"] = &clientcmdapi.Context{Cluster: "c"}
	config.CurrentContext = "c"
	path := filepath.Join(t.TempDir(), "kubeconfig")
	if err := clientcmd.WriteToFile(*config, path); err != nil {
		t.Fatal(err)
	}
	return path
}
