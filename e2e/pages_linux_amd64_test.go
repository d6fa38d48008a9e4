package e2e

import (
	"net"
	"path/filepath"
	"testing"

	"github.com/opreplay/opreplay/internal/otelcollector"
	"github.com/opreplay/opreplay/traces"
)

// Why a command is not run.
const (
	tested   = "it is the tests, or long ones of them"
	needRoot = "it looks at another process from the kernel, as root: recorder's tests do, where they may"
	atWorkIn = "Starting workers" // what an operator of the zoo logs when it is at work
)

// statusloopServed makes the definitions of statusloop be there, and waits until they are served.
const statusloopServed = "kubectl apply -f examples/operators/statusloop/crd.yaml && kubectl wait --for=condition=Established crd/sites.web.example.com"

// documentedInvariants are those of docs/explore.md.
const documentedInvariants = `--invariant 'objects.filter(o, o.kind == "Database").all(d, d.status.ready == true)' ` +
	`--invariant 'object.kind != "Database" || old == null || object.spec.sizeGiB >= old.spec.sizeGiB' --invariant @invariants.yaml`

// invariants are some in CEL.
const invariants = `- {name: settings, expr: 'objects.filter(o, o.kind == "ConfigMap").size() >= 0'}
`

// pages are all that have commands. A page that a reader needs a recording or a program for has it by the name that the
// page uses.
var pages = []page{
	{ // the first: nobody has left anything in the cluster that the analysis could find fault with
		path: "README.md", live: true,
		before: []string{"kubectl apply -f examples/operators/orphanfinalizer/crd.yaml && kubectl wait --for=condition=Established crd --all"},
		files:  map[string]string{"manager": "bin/zoo/orphanfinalizer"},
		commands: map[string]how{
			"make demo":                              {not: "the quick start has it too"},
			"make test":                              {not: tested},
			"oprec run --out t.optrace -- ./manager": {until: atWorkIn},
		},
	},
	{ // before others that have statusloop, whose definitions this one installs
		path: "docs/quickstart.md", live: true,
		files: map[string]string{"manager": "bin/zoo/statusloop"},
		commands: map[string]how{
			"make demo": {as: "make -o build demo"}, // of what is built already
			"bin/opsim analyze /tmp/opsim-demo-3350220249/orphanfinalizer-faulty.optrace": {code: 1},
			"bin/oprec run --out t.optrace -- bin/zoo/statusloop":                         {until: atWorkIn, beside: 1},
			"bin/opsim analyze t.optrace":                                                 {code: 1},
			"bin/opsim analyze t-run-1.optrace":                                           {code: 1},
			// The flag of operators that have leader election.
			"oprec run --out mine.optrace -- ./manager --leader-elect=false --metrics-bind-address=0": {
				as: "oprec run --out mine.optrace -- ./manager --metrics-bind-address=0", until: atWorkIn,
			},
		},
	},
	{
		path: "docs/capture.md", live: true,
		before: []string{
			statusloopServed,
			"kubectl create namespace shop",
			"kubectl create clusterrolebinding robot --clusterrole=cluster-admin --serviceaccount=shop:shop-operator",
		},
		files: map[string]string{"manager": "bin/zoo/statusloop"},
		texts: map[string]string{"token": "of nobody\n"},
		prepare: func(t *testing.T, _ string) map[string]string {
			return map[string]string{"127.0.0.1:8080": freeAddress(t), "127.0.0.1:8443": freeAddress(t)}
		},
		commands: map[string]how{
			"oprec run --out t.optrace -- ./manager --metrics-bind-address=0":                                                                                {until: atWorkIn},
			"oprec run --out robot.optrace --as system:serviceaccount:shop:shop-operator --duration 2m -- ./manager":                                         {until: atWorkIn},
			"oprec proxy --out debug.optrace --write-kubeconfig kubeconfig.debug --capture":                                                                  {until: "recording at"},
			"oprec run --out scraped.optrace --scrape http://127.0.0.1:8080/metrics --scrape-interval 5s -- ./manager --metrics-bind-address=127.0.0.1:8080": {until: atWorkIn},
			"oprec capture --out live.optrace --scrape https://127.0.0.1:8443/metrics --scrape-token-file token --scrape-insecure":                           {until: "the first lists are in"},
			"oprec capture --out shop.optrace -r deployments.apps -r po -n shop --exclude events":                                                            {until: "file shop.optrace/manifest.json"},
		},
	},
	{
		path: "docs/profile.md", live: true,
		before: []string{statusloopServed},
		files:  map[string]string{"manager": "bin/zoo/statusloop"},
		prepare: func(t *testing.T, dir string) map[string]string {
			sampled(t, filepath.Join(dir, "sampled.optrace"))
			return map[string]string{"export t.optrace": "export sampled.optrace"} // whether or not there was eBPF
		},
		commands: map[string]how{
			"oprec run --out t.optrace -- ./manager":                                            {until: atWorkIn},
			"oprec run --out loops.optrace --ebpf on --hz 499 --kernel-events all -- ./manager": {not: needRoot},
			"sudo oprec capture --out live.optrace --pid $(pgrep manager)":                      {not: needRoot},
		},
	},
	{
		path: "docs/metrics.md", live: true, tools: []string{"curl"},
		before: []string{statusloopServed},
		files:  map[string]string{"manager": "bin/zoo/statusloop"},
		prepare: func(t *testing.T, _ string) map[string]string {
			return map[string]string{"127.0.0.1:9464": freeAddress(t)}
		},
		commands: map[string]how{
			"oprec run --out t.optrace --metrics-addr 127.0.0.1:9464 -- ./manager":                                               {until: atWorkIn, beside: 1},
			"sudo oprec capture --out live.optrace --pod shop/shop-operator-0 --kernel-events all --metrics-addr 127.0.0.1:9464": {not: needRoot},
		},
	},
	{
		path:  "docs/replay.md",
		files: map[string]string{"t.optrace": "traces/cases/statusrace.optrace", "manager": "bin/zoo/statusrace", "operator": "bin/zoo/statusrace"},
		texts: map[string]string{"plan.yaml": "faults:\n- latency: {request: \"*\", between: [5ms, 200ms]}\n"},
		commands: map[string]how{
			"opsim replay t.optrace --operator ./manager --check 100": {as: "opsim replay t.optrace --operator ./manager --check 4"},
			"opsim analyze run.optrace":                               {code: 1},
		},
	},
	{
		path:  "docs/serve.md",
		files: map[string]string{"t.optrace": "traces/cases/statusloop.optrace"},
		commands: map[string]how{
			"opsim serve t.optrace":                                {until: untilInterrupted},
			"opsim serve t.optrace --at 300":                       {until: untilInterrupted},
			"opsim serve t.optrace --at 3s":                        {until: untilInterrupted},
			"opsim serve t.optrace --at 2026-11-30T11:31:40Z":      {until: untilInterrupted},
			"opsim serve t.optrace --writable":                     {until: untilInterrupted},
			"opsim serve --writable":                               {until: untilInterrupted},
			"opsim serve traces/cases/statusloop.optrace --at 300": {until: untilInterrupted, beside: 1},
			"kubectl delete namespace web":                         {code: 1},
			"KUBEBUILDER_ASSETS=$PWD/assets go test ./...":         {not: "it is the reader's own suite; a test of cmd/opsim runs one"},
		},
	},
	{
		path:  "docs/post-mortem.md",
		files: map[string]string{"run.optrace": "traces/cases/statusloop.optrace", "before.optrace": "traces/labelled/statusloop-faulty.optrace", "after.optrace": "traces/labelled/statusloop-fixed.optrace"},
		commands: map[string]how{
			"opsim analyze run.optrace":                             {code: 1},
			"opsim analyze --baseline before.optrace after.optrace": {code: 1},
		},
	},
	{
		path: "docs/report.md",
		files: map[string]string{
			"run.optrace": "traces/cases/statusloop.optrace", "unaltered.optrace": "traces/labelled/statusloop-fixed.optrace",
			"monday.optrace": "traces/labelled/statusloop-faulty.optrace", "tuesday.optrace": "traces/labelled/statusloop-fixed.optrace",
		},
		texts: map[string]string{"t-explored/exploration.json": "{}\n"}, // one that has just begun
		prepare: func(t *testing.T, dir string) map[string]string {
			sampled(t, filepath.Join(dir, "t.optrace"))
			return map[string]string{"http://127.0.0.1:4318": otelcollector.Start(t).HTTP}
		},
		commands: map[string]how{
			"opsim report run.optrace -o report.html":                               {code: 1},
			"opsim report run.optrace -o report.html --reference unaltered.optrace": {code: 1},
			"opsim report monday.optrace tuesday.optrace -o week.html":              {code: 1},
			"opsim report --live t.optrace":                                         {until: "http://"},
			"opsim report --live t-explored":                                        {until: "http://"},
			"opsim analyze run.optrace":                                             {code: 1},
			"opsim analyze run.optrace -o json":                                     {code: 1},
			"opsim analyze run.optrace -o markdown":                                 {code: 1},
			"opsim analyze run.optrace -o sarif > opsim.sarif":                      {code: 1},
			"opsim analyze run.optrace -o junit > opsim.xml":                        {code: 1},
			"opsim analyze run.optrace -o github":                                   {code: 1},
		},
	},
	{
		path: "docs/findings/json.md", tools: []string{"jq"},
		files: map[string]string{"run.optrace": "traces/cases/statusloop.optrace"},
	},
	{
		path:  "docs/explore.md",
		files: map[string]string{"t.optrace": "traces/cases/halfcreate.optrace", "manager": "bin/zoo/halfcreate"},
		texts: map[string]string{"invariants.yaml": invariants},
		commands: map[string]how{
			"opsim explore traces/cases/halfcreate.optrace --operator bin/zoo/halfcreate --budget 20": {code: 1},
			"opsim explore t.optrace --operator ./manager " + documentedInvariants:                    {as: "opsim explore t.optrace --operator ./manager --budget 3 " + documentedInvariants, code: 1},
		},
	},
	{
		path:  "docs/ci.md",
		files: map[string]string{"t.optrace": "traces/cases/halfcreate.optrace", "manager": "bin/zoo/halfcreate"},
		texts: map[string]string{
			"manager-fixed": "#!/bin/sh\nexec BIN/zoo/halfcreate --fixed \"$@\"\n",
			"go.mod":        "module example.com/operator\n\ngo 1.26\n",
			"cmd/main.go": "package main\n\nimport (\n\t\"os\"\n\t\"syscall\"\n)\n\nfunc main() {\n" +
				"\tpanic(syscall.Exec(\"BIN/zoo/halfcreate\", os.Args, os.Environ()))\n}\n",
		},
		commands: map[string]how{
			"opsim explore t.optrace --operator ./manager --keep cases":        {as: "opsim explore t.optrace --operator ./manager --keep cases --budget 4", code: 1},
			"opsim verify cases/finding-1 --operator ./manager-fixed":          {not: "the page has it once more, with a budget"},
			"opsim test traces/cases/halfcreate --operator bin/zoo/halfcreate": {code: 1},
		},
	},
	{
		path: "examples/operators/README.md", live: true,
		commands: map[string]how{
			"bin/oprec run --out t.optrace -- bin/zoo/statusrace": {until: atWorkIn, beside: 1},
			"bin/opsim analyze t.optrace":                         {code: 1},
		},
	},
	{path: "notebooks/README.md", commands: map[string]how{"make notebooks-lab": {not: "it opens a browser"}}},
	{path: "CONTRIBUTING.md", commands: map[string]how{"make test": {not: tested}, "make lint": {not: tested}, "make bench": {not: tested}}},
	{path: "docs/fidelity.md", commands: map[string]how{
		"make conformance":                        {not: tested},
		"make conformance SEED=7 OPERATIONS=2000": {not: tested},
		"make peers":                              {not: tested},
		"go test ./sim/internal/conformance -run TestConformance -v -args -first 12 -operations 1 -shrink 200": {not: tested},
		"go test ./sim/internal/conformance -run TestConformance -v -args -sequence FILE":                      {not: tested},
	}},
}

// untilInterrupted is what opsim serve prints when it serves.
const untilInterrupted = "export KUBECONFIG="

// freeAddress is one on loopback at which nobody listens.
func freeAddress(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	return l.Addr().String()
}

// sampled writes a trace with what only eBPF sees: a reconcile, its call, and samples of its stack.
func sampled(t *testing.T, dir string) {
	t.Helper()
	w, err := traces.Create(dir, traces.Manifest{Tool: "test", Source: "run"}, traces.WriterOptions{})
	if err != nil {
		t.Fatal(err)
	}
	const second = int64(1e9)
	head := func(at int64) traces.Head { return traces.Head{TS: 1796038297*second + at} }
	cart := traces.Identity{Version: "v1", Resource: "configmaps", Namespace: "shop", Name: "cart", UID: "6f1e", ResourceVersion: 7}
	for _, r := range []traces.Record{
		&traces.WatchEvent{Head: head(0), Identity: cart, Stream: "operator/configmaps", Process: "manager", Type: string(traces.Added), Object: `{"metadata":{"name":"cart","namespace":"shop"}}`},
		&traces.Stack{Head: head(0), StackID: 1, Frames: []traces.Frame{{Function: "main.(*Cart).Reconcile", File: "main.go", Line: 20}}},
		&traces.Reconcile{Head: head(second), Process: "manager", Controller: "cart", Namespace: "shop", Name: "cart", Start: head(1).TS, GoID: 9, Trigger: 1, Outcome: "ok"},
		&traces.Request{Head: head(second), Identity: cart, Start: head(2).TS, Process: "manager", Verb: "update", Code: 200, ReconcileID: 3},
		&traces.Sample{Head: head(second), StackID: 1, Weight: 40, ReconcileID: 3},
	} {
		if err := w.Append(r); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
}
