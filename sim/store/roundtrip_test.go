package store

import (
	"encoding/json"
	"math"
	"reflect"
	"slices"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
)

// readsBack is the long way.
func readsBack(t *testing.T, obj map[string]any) map[string]any {
	t.Helper()
	data, err := runtime.Encode(unstructured.UnstructuredJSONScheme, &unstructured.Unstructured{Object: obj})
	if err != nil {
		t.Fatalf("%v cannot be stored, and was copied: %v", obj, err)
	}
	back, err := runtime.Decode(unstructured.UnstructuredJSONScheme, data)
	if err != nil {
		t.Fatalf("%v: %s", err, data)
	}
	return back.(*unstructured.Unstructured).Object
}

func widgetWith(v any) map[string]any {
	return map[string]any{"apiVersion": "example.com/v1", "kind": "Widget", "metadata": map[string]any{"name": "a"}, "spec": map[string]any{"v": v}}
}

func TestReadBack(t *testing.T) {
	deep := []any{map[string]any{"a": []any{int64(1), 2.5, "x", true, map[string]any{}, []any{}}}}
	for _, v := range []any{
		int64(0), int64(math.MaxInt64), true, "", "<&>\u2028é", deep,
		0.0, math.Copysign(0, -1), 1.0, -3.0, 1.5, 1e20, 1e21, 9.2e18, 9.3e18, 1e-6, 1e-7, 123456789012345680.0, math.SmallestNonzeroFloat64,
	} {
		got, ok := readBack(widgetWith(v))
		if want := readsBack(t, widgetWith(v)); !ok || !reflect.DeepEqual(got, any(want)) {
			t.Errorf("%#v: copied as %#v (%t), read back as %#v", v, got, ok, want)
		}
	}
	// These take a codec.
	for _, v := range []any{nil, []any(nil), map[string]any(nil), "\xff", []any{nil}, map[string]any{"\xff": true}, int32(1), json.Number("1"), map[string]any{"metadata": map[string]any{"labels": map[string]any{}}}} {
		if _, ok := readBack(widgetWith(v)); ok {
			t.Errorf("%#v is copied", v)
		}
	}
	for _, metadata := range []map[string]any{{"labels": map[string]any{}}, {"finalizers": []any{}}, {"generateName": ""}, {"generation": int64(0)}} {
		obj := widgetWith(true)
		obj["metadata"] = metadata
		if _, ok := readBack(obj); ok {
			t.Errorf("metadata %v is copied", metadata)
		}
	}
}

// A copy shares nothing with its original.
func TestReadBackIsDeep(t *testing.T) {
	obj := widgetWith([]any{map[string]any{"a": "b"}})
	back, _ := readBack(obj)
	obj["spec"].(map[string]any)["v"].([]any)[0].(map[string]any)["a"] = "changed"
	obj["metadata"].(map[string]any)["name"] = "changed"
	if want := any(widgetWith([]any{map[string]any{"a": "b"}})); !reflect.DeepEqual(back, want) {
		t.Errorf("the copy became %v", back)
	}
}

func TestUnconverted(t *testing.T) {
	u := &unstructured.Unstructured{Object: widgetWith(true)}
	for data, want := range map[string]bool{
		`{"apiVersion":"example.com/v1","kind":"Widget"}`:      true,
		`{"apiVersion":"example.com/v1beta1","kind":"Widget"}`: false,
		`{"apiVersion":"example.com/v2"}`:                      false,
		`{"kind":"Widget","apiVersion":"example.com/v1"}`:      false,
		`{"apiVersion":"example.com/v1`:                        false,
		``:                                                     false,
	} {
		if got := unconverted(u, []byte(data)); got != want {
			t.Errorf("%s: %t", data, got)
		}
	}
}

// FuzzReadBack compares a copy with the codec's answer for any JSON object.
func FuzzReadBack(f *testing.F) {
	f.Add([]byte(`{"metadata":{"name":"a","labels":{"a":"b"}},"spec":{"n":1.0,"m":1e3,"list":[1,"x",{"y":0.1}]}}`))
	f.Fuzz(func(t *testing.T, doc []byte) {
		var obj map[string]any // with every number a float64
		if json.Unmarshal(doc, &obj) != nil || obj == nil {
			return // no object
		}
		obj["apiVersion"], obj["kind"] = "example.com/v1", "Widget"
		if _, list := obj["items"]; list {
			return // it would be decoded as a list
		}
		got, ok := readBack(obj)
		if !ok {
			return
		}
		if want := readsBack(t, obj); !reflect.DeepEqual(got, any(want)) {
			t.Errorf("copied as %#v, read back as %#v", got, want)
		}
	})
}

// The times of managedFields are put right in a custom resource as in a typed object.
func TestRawManagedFields(t *testing.T) {
	now := time.Date(2021, 5, 4, 10, 0, 0, 0, time.UTC)
	s := New(Options{Clock: func() time.Time { return now }})
	recorded, wall := "2019-01-01T00:00:00Z", time.Now().Add(time.Second).UTC().Format(time.RFC3339)
	u := &unstructured.Unstructured{Object: widgetWith(true)}
	u.Object["metadata"] = map[string]any{"name": "a", "managedFields": []any{
		map[string]any{"manager": "old", "time": recorded},
		map[string]any{"manager": "new", "time": wall},
		map[string]any{"manager": "none"},
		map[string]any{"manager": "another", "time": wall},
	}}
	s.stamp(t.Context(), "/a", false, u)
	var got []string
	for _, f := range u.GetManagedFields() {
		text := f.Manager
		if f.Time != nil {
			text += " " + f.Time.UTC().Format(time.RFC3339)
		}
		got = append(got, text)
	}
	if want := []string{"none", "old " + recorded, "another 2021-05-04T10:00:00Z", "new 2021-05-04T10:00:00Z"}; !slices.Equal(got, want) {
		t.Errorf("managedFields %q, want %q", got, want)
	}
	// Without any.
	s.stamp(t.Context(), "/a", false, &unstructured.Unstructured{Object: map[string]any{}})
}
