package peers

import (
	"reflect"
	"strings"
	"testing"
	"time"
)

const report = `[{"SpecReports":[
 {"LeafNodeType":"BeforeSuite","State":"passed"},
 {"ContainerHierarchyTexts":["Client","Get"],"LeafNodeType":"It","LeafNodeText":"works","State":"passed"},
 {"ContainerHierarchyTexts":["Client","Get"],"LeafNodeType":"It","LeafNodeText":"works","State":"panicked"},
 {"ContainerHierarchyTexts":["Client"],"LeafNodeType":"It","LeafNodeText":"waits","State":"pending"},
 {"LeafNodeType":"AfterSuite","State":"failed"}]}]`

func TestParse(t *testing.T) {
	got, err := parse([]byte(report))
	if err != nil {
		t.Fatal(err)
	}
	want := []Spec{
		{"Client Get works", Passed},
		{"Client Get works (2)", Failed},
		{"Client waits", Pending},
		{"[AfterSuite]", Failed},
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	if _, err := parse([]byte("PASS")); err == nil {
		t.Error("what is no report was read")
	}
}

func TestLost(t *testing.T) {
	a := []Result{{Package: "p", Specs: []Spec{{"x", Passed}, {"y", Passed}, {"z", Failed}, {"w", Passed}}}}
	b := []Result{{Package: "p", Specs: []Spec{{"x", Passed}, {"y", Failed}, {"z", Failed}}, Log: "b.log"}}
	want := []Difference{{"p", "y", "b.log"}, {"p", "w", "b.log"}}
	if got := Lost(a, b); !reflect.DeepEqual(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
	if got := Lost(b, a); got != nil {
		t.Errorf("the other way: %v", got)
	}
}

func TestTable(t *testing.T) {
	ours := []Result{
		{Package: "p", Specs: []Spec{{"x", Passed}, {"y", Skipped}}, Took: 1234 * time.Millisecond},
		{Package: "q", Error: "no report: exit status 2"},
	}
	var b strings.Builder
	if err := Table(&b, nil, ours); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"| p ", "| 1/0/1 ", "| 1.2s ", "| not run ", "no report: exit status 2"} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("the table lacks %q:\n%s", want, b.String())
		}
	}
}

func TestRace(t *testing.T) {
	for spec, want := range map[string]bool{
		"Informer Cache should allow getting an informer by group/version/kind to be cancelled":     true,
		"Informer Cache should allow getting an informer by group/version/kind to be cancelled (2)": true,
		"Multi-Namespace Informer Cache should return an error when context is cancelled":           true,
		"Informer Cache should be able to list objects":                                             false,
	} {
		if got := Race(Difference{Package: "pkg/cache", Spec: spec}) != ""; got != want {
			t.Errorf("%s: %v", spec, got)
		}
	}
}
