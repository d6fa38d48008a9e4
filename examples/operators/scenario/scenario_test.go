package scenario

import (
	"os"
	"path/filepath"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/opreplay/opreplay/examples/operators"
)

// Every folder with a main.go that has definitions is an operator of the zoo, with a scenario.
func TestEveryOperatorHasAScenario(t *testing.T) {
	files, err := filepath.Glob("../*/crd.yaml")
	if err != nil {
		t.Fatal(err)
	}
	if all := len(operators.Zoo()) + len(operators.Recorded()); len(files) != all {
		t.Errorf("%d folders have a crd.yaml, the zoo has %d operators", len(files), all)
	}
	for _, file := range files {
		name := filepath.Base(filepath.Dir(file))
		if _, err := os.Stat(filepath.Join("..", name, "main.go")); err != nil {
			t.Error(err)
		}
		s, err := For(name)
		if err != nil {
			t.Error(err)
			continue
		}
		onDisk, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if string(onDisk) != string(s.CRDs) {
			t.Errorf("%s: the scenario installs other definitions than %s", name, file)
		}
		definitions, err := documents(s.CRDs)
		if err != nil {
			t.Errorf("%s: %v", file, err)
		}
		for _, crd := range definitions {
			plural, _, _ := unstructured.NestedString(crd.Object, "spec", "names", "plural")
			group, _, _ := unstructured.NestedString(crd.Object, "spec", "group")
			if crd.GetKind() != "CustomResourceDefinition" || crd.GetName() != plural+"."+group {
				t.Errorf("%s: %s %s is no definition of %s.%s", file, crd.GetKind(), crd.GetName(), plural, group)
			}
		}
	}
}

func TestNoSuchOperator(t *testing.T) {
	if _, err := For("nosuch"); err == nil {
		t.Error("a scenario for an operator that is not there")
	}
}

func TestCondition(t *testing.T) {
	object := &unstructured.Unstructured{Object: map[string]any{"status": map[string]any{"conditions": []any{
		map[string]any{"type": "Ready", "status": "True", "observedGeneration": int64(2)},
		map[string]any{"type": "Old", "status": "True"},
		map[string]any{"type": "Broken", "status": "False", "observedGeneration": int64(2)},
	}}}}
	for _, c := range []struct {
		name       string
		generation int64
		want       bool
	}{
		{"Ready", 2, true},
		{"Ready", 3, false},
		{"Old", 0, true},
		{"Old", 1, false},
		{"Broken", 0, false},
		{"Missing", 0, false},
	} {
		if got := condition(object, c.name, c.generation); got != c.want {
			t.Errorf("condition %s for generation %d: %v", c.name, c.generation, got)
		}
	}
	if condition(nil, "Ready", 0) {
		t.Error("an object that is gone has a condition")
	}
}
