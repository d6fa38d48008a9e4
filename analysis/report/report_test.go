package report

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"reflect"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/opreplay/opreplay/analysis"
	"github.com/opreplay/opreplay/analysis/causal"
)

var rewrite = flag.Bool("rewrite", false, "write what is printed to testdata instead of comparing")

var begun = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// sample is a result with one of everything, and figures of every size.
func sample() *analysis.Result {
	front := analysis.Object{Group: "web.example.com", Version: "v1", Resource: "sites", Namespace: "shop", Name: "front", UID: "6f1e"}
	record := analysis.Object{Group: "dns.example.com", Version: "v1", Resource: "records", Namespace: "dns", Name: "www", UID: "9a2c"}
	return &analysis.Result{
		Schema: analysis.Schema,
		Looked: analysis.Looked{
			Trace: "front.optrace", Source: "run", Records: 1234567, Watch: 1200000, Requests: 34000, Logs: 567, From: begun, To: begun.Add(90 * time.Second),
			Processes: []string{"siteop"}, Objects: 201, Detectors: []string{"self-loop", "churn"},
		},
		Caveats: []string{"the trace is known to lack records in 2 places; findings in that time are less certain"},
		Findings: []analysis.Finding{
			{
				ID: "F1", Detector: "self-loop", Group: "F1", Severity: analysis.Error, Certainty: analysis.Sure, Process: "siteop", Manager: "siteop-status",
				Objects: []analysis.Object{front}, Total: 1,
				What:  "siteop wakes itself: 30 writes of sites.web.example.com shop/front in 3.8 s, each queued by the event of an own write, the spec unchanged and no end in sight",
				Cause: "each pass writes a fresh time to status.conditions[*].lastTransitionTime though nothing else changed",
				Field: "status.conditions[*].lastTransitionTime",
				Statistics: []analysis.Statistic{
					{Name: "period", Value: 0.1234, Unit: "s", Low: 0.121, High: 0.1325, Confidence: 0.95, N: 29},
					{Name: "writes", Value: 7.53, Unit: "1/s", Low: 5.05, High: 10.8, Confidence: 0.95, N: 29},
					{Name: "only own events between", Value: 0.9655, Unit: "share", Low: 0.822, High: 0.9991, Confidence: 0.95, N: 29},
				},
				Evidence: analysis.Evidence{Total: 29, Over: []int64{8, 1, 0, 4, 16}, Items: []analysis.Item{
					{Seq: 221, Time: begun, What: "write of version 221, woken by the event of an own write (seq 215)"},
					{Seq: 1234432, Time: begun, What: "write of version 291, woken by the event of an own write (seq 1234424)"},
				}},
				Row: 1234432, Stack: 7, Code: "siteop/main.go:77 (main.(*SiteReconciler).Reconcile)", Path: chain().Steps[1:4],
				First: begun, Last: begun.Add(3850 * time.Millisecond), Reproduce: "opsim replay front.optrace --operator './siteop --fast'",
			},
			{
				ID: "F2", Detector: "churn", Group: "F1", Severity: analysis.Warning, Certainty: analysis.Likely, Process: "siteop", Manager: "siteop",
				Objects: []analysis.Object{front, front, front, front}, Total: 12, What: "it writes without meaning", Cause: "a time is renewed",
				Statistics: []analysis.Statistic{{Name: "empty writes", Value: 42, Unit: "writes", Low: 42, High: 42, N: 42}},
				First:      begun, Last: begun.Add(20 * time.Hour),
			},
			{
				ID: "F3", Detector: "finalizer-hang", Group: "F3", Severity: analysis.Error, Certainty: analysis.Possible,
				Objects: []analysis.Object{record}, Total: 1, What: "it hangs", Cause: "nobody came", Field: "metadata.finalizers",
				Statistics: []analysis.Statistic{
					{Name: "stands still for", Value: 86400, Unit: "s", Low: 86400, High: 86400, Unbounded: true, N: 1},
					{Name: "deletion takes", Value: 0.0000186, Unit: "s", Low: 0.0000157, High: 86400, Unbounded: true, Confidence: 0.95, N: 8},
				},
				Survival: []analysis.SurvivalPoint{{Seconds: 0.1, AtRisk: 8, Ended: 6, Survival: 0.25, Low: 0.03, High: 0.6}},
				First:    begun, Last: begun.Add(24 * time.Hour),
			},
		},
		Notes: []analysis.Note{{Detector: "churn", Process: "siteop", What: "30 of 40 writes by siteop to 3 objects of services changed nothing", Count: 30}},
	}
}

// chain is why something happened, with each kind of step.
func chain() *causal.Chain {
	return &causal.Chain{Schema: causal.Schema, Trace: "front.optrace", Target: "sites.web.example.com web/front", Steps: []causal.Step{
		{Seq: 1234424, Kind: causal.Event, Process: "siteop", What: "siteop is told of version 291 of sites.web.example.com web/front (MODIFIED), which changed status.conditions[*].lastTransitionTime", Times: 1290},
		{Seq: 1234432, Kind: causal.Write, Process: "siteop", What: "siteop patches status of sites.web.example.com web/front", Code: "siteop/main.go:77 (main.(*SiteReconciler).Reconcile)", Stack: 7, Known: "recorded", Confidence: 1, By: "its answer carries this version", Times: 1290},
		{Seq: 221, Kind: causal.Event, Process: "siteop", What: "siteop is told of version 290 of sites.web.example.com web/front (MODIFIED)", Known: "inferred", Confidence: 0.6, By: "the newest event of the object's family before it"},
		{Kind: causal.Unknown, What: "field manager kubectl, whose request was not recorded", Known: "inferred", Confidence: 0.7},
	}}
}

func TestWhy(t *testing.T) {
	var b bytes.Buffer
	if err := Why(&b, chain(), Options{}); err != nil {
		t.Fatal(err)
	}
	golden(t, "why.txt", b.Bytes())
	b.Reset()
	if err := WhyJSON(&b, chain()); err != nil {
		t.Fatal(err)
	}
	var back causal.Chain
	if err := json.Unmarshal(b.Bytes(), &back); err != nil || len(back.Steps) != 4 {
		t.Error(err, b.String())
	}
}

func golden(t *testing.T, name string, got []byte) {
	t.Helper()
	file := "testdata/" + name
	if *rewrite {
		if err := os.WriteFile(file, got, 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Errorf("not what %s has (go test -rewrite, then read the difference):\n%s", file, got)
	}
}

func text(t *testing.T, r *analysis.Result, o Options) []byte {
	t.Helper()
	var b bytes.Buffer
	if err := Text(&b, r, o); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func TestText(t *testing.T) {
	golden(t, "text.txt", text(t, sample(), Options{Notes: true}))
}

func TestNothingFound(t *testing.T) {
	got := text(t, &analysis.Result{Looked: analysis.Looked{Trace: "t.optrace", Detectors: []string{"churn"}}}, Options{})
	golden(t, "nothing.txt", got)
}

func TestColourOnlyAddsEscapes(t *testing.T) {
	plain := text(t, sample(), Options{})
	painted := text(t, sample(), Options{Color: true})
	if bytes.Contains(plain, []byte("\x1b")) || !bytes.Contains(painted, []byte("\x1b[1;31merror\x1b[0m")) {
		t.Error("escapes without colour, or none with it")
	}
	if stripped := regexp.MustCompile("\x1b\\[[0-9;]*m").ReplaceAll(painted, nil); !bytes.Equal(stripped, plain) {
		t.Errorf("colour changes the text:\n%s", stripped)
	}
}

func TestNoLineIsTooWide(t *testing.T) {
	for _, line := range strings.Split(string(text(t, sample(), Options{Width: 60, Notes: true})), "\n") {
		aligned := strings.Contains(line, "seq ") || strings.Contains(line, " n ") || strings.Contains(line, "certainty") || strings.Contains(line, "opsim ")
		if len([]rune(line)) > 60 && !aligned {
			t.Errorf("%d columns: %s", len([]rune(line)), line)
		}
	}
}

func TestNoColourInFilesAndWhenNotWanted(t *testing.T) {
	f, err := os.Create(t.TempDir() + "/out")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	if Terminal(f) || Terminal(&bytes.Buffer{}) {
		t.Error("a file and a buffer are no terminals")
	}
}

func TestJSON(t *testing.T) {
	var b bytes.Buffer
	if err := JSON(&b, sample()); err != nil {
		t.Fatal(err)
	}
	golden(t, "result.json", b.Bytes())
	var back analysis.Result
	if err := json.Unmarshal(b.Bytes(), &back); err != nil {
		t.Fatal(err)
	}
	var again bytes.Buffer
	if err := JSON(&again, &back); err != nil || !bytes.Equal(again.Bytes(), b.Bytes()) {
		t.Error("read back and written again it differs", err)
	}
	b.Reset()
	if err := JSON(&b, &analysis.Result{}); err != nil {
		t.Fatal(err)
	}
	if strings.Contains(b.String(), "null") {
		t.Error("empty lists are null:", b.String())
	}
}

// Every field that the JSON form has is explained in its page.
func TestJSONIsDocumented(t *testing.T) {
	page, err := os.ReadFile("../../docs/findings/json.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, typ := range []any{analysis.Result{}, analysis.Looked{}, analysis.Finding{}, analysis.Object{}, analysis.Statistic{}, analysis.Evidence{}, analysis.Period{}, analysis.Backoff{}, analysis.RateChange{}, analysis.Item{}, analysis.Effect{}, analysis.SurvivalPoint{}, analysis.Note{}, causal.Step{}, causal.Chain{}, analysis.Comparison{}, analysis.FindingShift{}, analysis.Shift{}} {
		v := reflect.TypeOf(typ)
		for i := range v.NumField() {
			if !v.Field(i).IsExported() {
				continue
			}
			name, _, _ := strings.Cut(v.Field(i).Tag.Get("json"), ",")
			if name == "" {
				t.Errorf("%s.%s has no name in JSON", v.Name(), v.Field(i).Name)
			}
			if !strings.Contains(string(page), "`"+name+"`") {
				t.Errorf("docs/findings/json.md doesn't explain %s.%s", v.Name(), name)
			}
		}
	}
	if !strings.Contains(string(page), analysis.Schema) {
		t.Error("docs/findings/json.md names another schema than", analysis.Schema)
	}
}

// Every detector has its page, and the index names it.
func TestEveryDetectorHasItsPage(t *testing.T) {
	index, err := os.ReadFile("../../docs/findings/README.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range analysis.Names() {
		page, err := os.ReadFile("../../docs/findings/" + name + ".md")
		if err != nil {
			t.Error(err)
			continue
		}
		for _, heading := range []string{"## What it means", "## How it comes about", "## How to fix it", "## Example", "## When it speaks"} {
			if !strings.Contains(string(page), heading) {
				t.Errorf("%s.md has no %q", name, heading)
			}
		}
		if !strings.Contains(string(index), name+".md") {
			t.Errorf("the index doesn't name %s", name)
		}
	}
}
