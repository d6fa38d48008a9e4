package recorder_test

import (
	"context"
	"encoding/base64"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/opreplay/opreplay/bpf"
	"github.com/opreplay/opreplay/recorder"
	"github.com/opreplay/opreplay/traces"
)

// needEBPF skips where the kernel lets us see nothing.
func needEBPF(t testing.TB) {
	t.Helper()
	if err := bpf.Check(false); err != nil {
		t.Skipf("SKIPPED: %v", err)
	}
}

// stripped compiles a program without symbols or debug information.
func stripped(t testing.TB, name, pkg string) string {
	t.Helper()
	out := filepath.Join(t.TempDir(), name)
	build := exec.Command("go", "build", "-ldflags=-s -w", "-o", out, pkg)
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if text, err := build.CombinedOutput(); err != nil {
		t.Fatalf("go build %s: %v\n%s", pkg, err, text)
	}
	return out
}

// marks are the lines of a source file by the comment "// TAG: MARK" on them.
func marks(t testing.TB, file, tag string) map[string]int32 {
	t.Helper()
	lines := map[string]int32{}
	for i, line := range strings.Split(string(must[[]byte](t)(os.ReadFile(file))), "\n") {
		if _, mark, ok := strings.Cut(line, "// "+tag+": "); ok {
			lines[mark] = int32(i + 1)
		}
	}
	return lines
}

// doer is testdata/operator at work in a namespace of its own.
type doer struct {
	t      testing.TB
	ns     string
	client *kubernetes.Clientset
	pid    int
	*recording
}

// startDoer records testdata/operator by Run.
func startDoer(t testing.TB, ebpf recorder.EBPF) *doer {
	t.Helper()
	return startDoerWith(t, recorder.Options{EBPF: ebpf})
}

func startDoerWith(t testing.TB, o recorder.Options) *doer {
	t.Helper()
	config := live(t).Config()
	o.Config = config
	d := &doer{t: t, ns: newNamespace(t, config), client: must[*kubernetes.Clientset](t)(kubernetes.NewForConfig(config))}
	path := stripped(t, "doer", "./testdata/operator")
	d.recording = record(t, func(ctx context.Context, o recorder.Options) (*recorder.Result, error) {
		return recorder.Run(ctx, recorder.RunOptions{
			Options: o, Command: []string{path}, Env: []string{"OPERATOR_NAMESPACE=" + d.ns, "OPERATOR_WORD=" + planted}, NoCapture: true, Stderr: os.Stderr,
		})
	}, o)
	said := await(d.recording, "the operator's pid", func(l *traces.Log) bool { return strings.HasPrefix(l.Message, "pid ") })
	d.pid = must[int](t)(strconv.Atoi(strings.TrimPrefix(said.Message, "pid ")))
	return d
}

// order has the operator do something, and returns the version of the order.
func (d *doer) order(name, do string) string {
	d.t.Helper()
	return d.orderAt(name, do, "")
}

// orderAt has it do something to what lies AT a place.
func (d *doer) orderAt(name, do, at string) string {
	d.t.Helper()
	return must[*corev1.ConfigMap](d.t)(d.client.CoreV1().ConfigMaps(d.ns).Create(d.t.Context(), &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Name: name}, Data: map[string]string{"do": do, "at": at},
	}, metav1.CreateOptions{})).ResourceVersion
}

// index is the tables that profiles are in.
type index struct {
	stacks     map[int64][]traces.Frame
	reconciles map[int64]*traces.Reconcile
}

func indexOf(t testing.TB, tr *traces.Trace) index {
	x := index{map[int64][]traces.Frame{}, map[int64]*traces.Reconcile{}}
	for _, s := range rows[traces.Stack](t, tr) {
		x.stacks[s.StackID] = s.Frames
	}
	for _, r := range rows[traces.Reconcile](t, tr) {
		x.reconciles[r.Seq] = r
	}
	return x
}

// lineIn is the innermost line of a stack in a file.
func lineIn(frames []traces.Frame, file string) (function string, line int32) {
	for _, f := range frames {
		if strings.HasSuffix(f.File, file) {
			return f.Function, f.Line
		}
	}
	return "", 0
}

// A pass is known with its key, its outcome and the event that led to it; a call with its line and its pass.
func TestRunTiesCallsToLinesAndPasses(t *testing.T) {
	needEBPF(t)
	d := startDoer(t, recorder.EBPFOn)
	versions := map[string]string{}
	for _, do := range []string{"nothing", "later", "fail", "write"} {
		versions[do] = d.order("order-"+do, do)
		want := map[string]int{"later": 2, "fail": 2}[do]
		for range max(1, want) {
			await(d.recording, "a pass of "+do, func(r *traces.Reconcile) bool { return r.Name == "order-"+do })
		}
	}
	trace := d.end()
	x := indexOf(t, trace)

	outcomes := map[string][]string{}
	triggers := map[string][]int64{}
	for _, r := range rows[traces.Reconcile](t, trace) {
		if r.Namespace != d.ns || r.Controller != "configmap" || r.KnownBy != "probe" || r.Process != "doer" || r.GoID == 0 || r.Start >= r.TS {
			t.Errorf("%+v", r)
		}
		outcomes[r.Name] = append(outcomes[r.Name], r.Outcome)
		triggers[r.Name] = append(triggers[r.Name], r.Trigger)
	}
	for name, want := range map[string]string{
		"order-nothing": "success", "order-later": "requeue success", "order-fail": "error success", "order-write": "success",
	} {
		if got := strings.Join(outcomes[name], " "); got != want {
			t.Errorf("%s: outcomes %s, want %s", name, got, want)
		}
	}
	for do, version := range versions {
		var event int64
		for _, e := range rows[traces.WatchEvent](t, trace) {
			if e.Process == "doer" && e.Name == "order-"+do && fmt.Sprint(e.ResourceVersion) == version {
				event = e.Seq
			}
		}
		got := triggers["order-"+do]
		if event == 0 || len(got) == 0 || got[0] != event || len(got) > 1 && got[1] != 0 {
			t.Errorf("%s: triggers %d; the order's event is %d", do, got, event)
		}
	}

	lines := marks(t, "testdata/operator/main.go", "call")
	found := map[string]bool{}
	for _, q := range rows[traces.Request](t, trace) {
		if !write(q.Verb) {
			continue
		}
		mark := q.Verb
		switch {
		case q.Verb == "patch":
			mark += " " + q.FieldManager
		case q.Verb == "create" && q.Resource == "configmaps":
			mark += " " + q.Name
		}
		found[mark] = true
		function, line := lineIn(x.stacks[q.StackID], "testdata/operator/main.go")
		if line != lines[mark] || line == 0 || !strings.HasSuffix(function, ".write") {
			t.Errorf("%s came from line %d of %s, not from line %d", mark, line, function, lines[mark])
		}
		if r := x.reconciles[q.ReconcileID]; r == nil || r.Name != "order-write" || q.Start < r.Start || q.TS > r.TS {
			t.Errorf("%s belongs to %+v", mark, r)
		}
	}
	if len(found) != len(lines) {
		t.Errorf("writes %v, of %v", found, lines)
	}
}

// What uses up the processor is named by key and line.
func TestRunNamesTheBusyKey(t *testing.T) {
	needEBPF(t)
	d := startDoer(t, recorder.EBPFOn)
	d.order("idle", "nothing")
	d.order("busy", "burn")
	for i := range 20 { // what the operator has to take in meanwhile
		d.order(fmt.Sprint("waiting-", i), "nothing")
	}
	left := map[string]bool{"busy": true, "waiting-19": true} // which ends first is the queue's business
	await(d.recording, "the ends of the busy and the last pass", func(r *traces.Reconcile) bool {
		delete(left, r.Name)
		return len(left) == 0
	})
	trace := d.end()
	x := indexOf(t, trace)
	var all, known, others int
	for _, s := range rows[traces.Sample](t, trace) {
		frames := x.stacks[s.StackID]
		function, line := lineIn(frames, "testdata/operator/main.go")
		r := x.reconciles[s.ReconcileID]
		switch {
		case strings.HasSuffix(function, ".burn"):
			all++
			if r != nil && r.Name == "busy" && line > 0 && s.TS >= r.Start && s.TS <= r.TS {
				known++
			}
		case r != nil && r.Name == "busy":
			others++
		}
	}
	t.Logf("%d samples of the busy function, %d of them with its key and line; %d others of its pass", all, known, others)
	if all < 50 || known*100 < all*95 || others*100 > all*5 {
		t.Error("want 95 of 100")
	}
}

// The probes alone tell of the writes what the proxy tells, and keep secrets as it does.
func TestCaptureOfAProcessIsLikeTheProxy(t *testing.T) {
	needEBPF(t)
	d := startDoer(t, recorder.EBPFOff)
	d.order("there", "nothing")
	alone := record(t, recorder.Capture, recorder.Options{Config: live(t).Config(), Choice: recorder.Choice{PID: d.pid}, Resources: []string{"configmaps", "secrets"}, Namespaces: []string{d.ns}})
	await(alone, "the capture's start", func(*traces.WatchEvent) bool { return true })
	d.order("order-write", "write")
	for _, r := range []*recording{d.recording, alone} {
		await(r, "the last write", func(q *traces.Request) bool { return q.Verb == "delete" })
	}
	proxied, probed := writesOf(t, d.end()), writesOf(t, alone.end())
	for i := range max(len(proxied), len(probed)) {
		var want, got string
		if i < len(proxied) {
			want = proxied[i]
		}
		if i < len(probed) {
			got = probed[i]
		}
		if want != got {
			t.Errorf("write %d\nby the proxy  %s\nby the probes %s", i, want, got)
		}
	}
	if len(proxied) != 8 {
		t.Errorf("%d writes: %q", len(proxied), proxied)
	}
	text := everything(t, alone.out)
	for _, form := range []string{planted, base64.StdEncoding.EncodeToString([]byte(planted))} {
		if strings.Contains(text, form) {
			t.Errorf("%s is in the trace", form)
		}
	}
}

// redactedValues are what stands for a secret, plain and in base64: the key differs from recording to recording.
var redactedValues = regexp.MustCompile("redacted:hmac-sha256:[0-9a-f]+|cmVkYWN0ZWQ6aG1hYy1zaGEyNTY6[A-Za-z0-9+/]*=*")

// writesOf are the operator's writes, one a line.
func writesOf(t testing.TB, tr *traces.Trace) (all []string) {
	for _, q := range rows[traces.Request](t, tr) {
		if q.Process == "doer" && write(q.Verb) {
			body := redactedValues.ReplaceAllString(q.RequestBody, "SECRET")
			all = append(all, fmt.Sprint(q.Verb, q.Group, q.Version, q.Resource, q.Subresource, q.Namespace, q.Name, q.Query, q.Code, " ",
				q.UID, " ", q.ResourceVersion, " ", q.FieldManager, " ", body))
		}
	}
	return all
}
