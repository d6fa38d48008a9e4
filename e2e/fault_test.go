package e2e

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/opreplay/opreplay/examples/operators/scenario"
	"github.com/opreplay/opreplay/internal/livecluster"
	"github.com/opreplay/opreplay/traces/cases"
)

// finding is what of a finding the recording and the replay must agree on.
type finding struct {
	Detector string `json:"detector"`
	Objects  []struct {
		Group, Resource, Namespace, Name string
	} `json:"objects"`
	Cause    string `json:"cause"`
	Evidence struct {
		Total int64 `json:"total"`
		Items []struct {
			Seq int64 `json:"seq"`
		} `json:"items"`
	} `json:"evidence"`
}

// names are the objects of a finding, without order: which is the worst may differ.
func (f finding) names() []string {
	var names []string
	for _, o := range f.Objects {
		names = append(names, fmt.Sprintf("%s.%s %s/%s", o.Resource, o.Group, o.Namespace, o.Name))
	}
	slices.Sort(names)
	return names
}

// The fault of each operator is found in its recording on a real API server and again in the recording's replay.
func TestFaultIsRecordedReplayedAndNamed(t *testing.T) {
	for _, c := range cases.Plain() {
		t.Run(c.Name, func(t *testing.T) {
			t.Parallel()
			recording := record(t, c.Operator)
			recorded := mustFind(t, c.Finding, analyze(t, recording))

			replayed := filepath.Join(t.TempDir(), "run.optrace")
			mustRun(t, []int{0, 1}, "opsim", "replay", recording, "--operator", operator(c.Operator), "--out", replayed)
			again := mustFind(t, c.Finding, analyze(t, replayed))

			if got, want := again.names(), recorded.names(); !slices.Equal(got, want) {
				t.Errorf("%s in the replay is about %v, in the recording about %v", c.Finding, got, want)
			}
		})
	}
}

// The mended twins, recorded in the same session, have nothing that the analysis minds.
func TestMendedTwinsHaveNoFindings(t *testing.T) {
	for _, c := range cases.Plain() {
		t.Run(c.Name, func(t *testing.T) {
			t.Parallel()
			if found := analyze(t, record(t, c.Operator, "--fixed")); len(found) > 0 {
				t.Errorf("the mended twin has findings: %+v", found)
			}
		})
	}
}

// record runs an operator of the zoo under oprec on a cluster of its own, with its user, and returns the trace.
func record(t *testing.T, name string, flags ...string) string {
	t.Helper()
	s, err := scenario.For(name)
	if err != nil {
		t.Fatal(err)
	}
	cluster := livecluster.Start(t, livecluster.Options{})
	if err := s.Install(within(t), cluster.Config()); err != nil {
		t.Fatal(err)
	}
	trace := filepath.Join(t.TempDir(), name+".optrace")
	args := []string{"run", "--kubeconfig", cluster.KubeconfigFile(), "--out", trace, "--", filepath.Join(bin, "zoo", name)}
	oprec := start(t, "oprec", append(args, flags...)...)
	oprec.await("Starting workers")
	if err := s.Play(within(t), cluster.Config()); err != nil {
		t.Fatal(err)
	}
	oprec.interrupt()
	if end := oprec.wait(); end.code != 0 {
		t.Fatalf("oprec run ended with exit code %d\n%s", end.code, end.stderr)
	}
	mustRun(t, []int{0}, "oprec", "verify", trace)
	return trace
}

// analyze returns the findings in a trace.
func analyze(t *testing.T, trace string) []finding {
	t.Helper()
	out := mustRun(t, []int{0, 1}, "opsim", "analyze", trace, "-o", "json")
	var result struct {
		Findings []finding `json:"findings"`
	}
	if err := json.Unmarshal([]byte(out), &result); err != nil {
		t.Fatalf("opsim analyze -o json: %v\n%s", err, out)
	}
	return result.Findings
}

// mustFind returns the one finding of that detector, which must have object, cause and evidence.
func mustFind(t *testing.T, detector string, all []finding) finding {
	t.Helper()
	var found []finding
	for _, f := range all {
		if f.Detector == detector {
			found = append(found, f)
		}
	}
	if len(found) != 1 {
		t.Fatalf("%d findings of %s, want 1, among %+v", len(found), detector, all)
	}
	f := found[0]
	if len(f.Objects) == 0 || f.Cause == "" || len(f.Evidence.Items) == 0 || f.Evidence.Items[0].Seq == 0 {
		t.Fatalf("%s lacks object, cause or evidence: %+v", detector, f)
	}
	return f
}

// operator is the command line of a faulty twin.
func operator(name string) string {
	return "'" + strings.ReplaceAll(filepath.Join(bin, "zoo", name), "'", `'\''`) + "'"
}
