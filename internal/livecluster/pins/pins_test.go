package pins

import (
	"maps"
	"reflect"
	"testing"
)

const (
	productDir = "../../.."
	controlDir = "../controlplane"
)

func TestBothModulesPinTheSameVersions(t *testing.T) {
	product, err := Read(t.Context(), productDir)
	if err != nil {
		t.Fatal(err)
	}
	control, err := Read(t.Context(), controlDir)
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range []Module{product, control} {
		if m.Versions[Kubernetes] == "" || len(m.Versions) < 100 {
			t.Errorf("%s: %d modules and %s %q: the test looks at the wrong place", m.Dir, len(m.Versions), Kubernetes, m.Versions[Kubernetes])
		}
	}
	for _, d := range Differences(product, control) {
		t.Errorf("%s is %s in go.mod and %s in internal/livecluster/controlplane/go.mod; run go generate ./internal/livecluster", d.Path, d.A, d.B)
	}
}

func TestDifferences(t *testing.T) {
	a := Module{Versions: map[string]string{"x": "v1.9.0", "y": "v1.0.0", "same": "v1.0.0", "only-a": "v1.0.0"}}
	b := Module{Versions: map[string]string{"x": "v1.10.0", "y": "v1.0.0-rc.1", "same": "v1.0.0", "only-b": "v1.0.0"}}
	got := Differences(a, b)
	if want := []Difference{{"x", "v1.9.0", "v1.10.0"}, {"y", "v1.0.0", "v1.0.0-rc.1"}}; !reflect.DeepEqual(got, want) {
		t.Fatalf("got %v, want %v", got, want)
	}
	for i, want := range []string{"v1.10.0", "v1.0.0"} {
		if higher, err := got[i].Higher(); err != nil || higher != want {
			t.Errorf("the higher of %v: %s, %v, want %s", got[i], higher, err, want)
		}
	}
	pseudo := Difference{"z", "v0.0.0-20250730193827-2d320260d730", "v0.0.0-20260102033503-faa5f7b0171c"}
	if higher, err := pseudo.Higher(); err != nil || higher != pseudo.B {
		t.Errorf("the higher of %v: %s, %v", pseudo, higher, err)
	}
}

func TestStaging(t *testing.T) {
	m := Module{Versions: map[string]string{
		Kubernetes: "v1.37.2", "k8s.io/api": "v0.37.2", "k8s.io/klog/v2": "v2.130.1", "example.com/x": "v0.37.2",
	}}
	got, err := m.Staging("v1.38.0")
	if want := map[string]string{Kubernetes: "v1.38.0", "k8s.io/api": "v0.38.0"}; err != nil || !maps.Equal(got, want) {
		t.Errorf("got %v, %v, want %v", got, err, want)
	}
	if _, err := m.Staging("1.38"); err == nil {
		t.Error("a version without its v is taken")
	}
}
