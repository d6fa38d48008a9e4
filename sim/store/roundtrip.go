package store

import (
	"bytes"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"unicode/utf8"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
)

// What a write answers is what was stored, read back: so it is with etcd, and clients see the difference where
// encoding and decoding is not the identity. For a custom resource reading back is a quarter of the cost of a
// write and hardly ever changes anything. readsBackAs tells where it does not, and copies; not where admission may
// have changed the object (see Mutated).

// readsBackAs is obj, which plain was encoded from, as it would be decoded, without a version; nil where only
// decoding tells.
func (r *resource) readsBackAs(obj runtime.Object, plain []byte) runtime.Object {
	u, ok := obj.(*unstructured.Unstructured)
	if !ok || !unconverted(u, plain) || applied(u) {
		return nil
	}
	copied, ok := readBack(u.Object)
	if !ok {
		return nil
	}
	back := &unstructured.Unstructured{Object: copied.(map[string]any)}
	if r.s.opts.Verify {
		r.verify(back, plain)
	}
	return back
}

// applied tells whether somebody applied some of u. What is applied is pruned by the schema only when it is read.
func applied(u *unstructured.Unstructured) bool {
	m, _ := u.Object["metadata"].(map[string]any)
	entries, _ := m["managedFields"].([]any)
	return slices.ContainsFunc(entries, func(e any) bool {
		entry, _ := e.(map[string]any)
		return entry["operation"] == string(metav1.ManagedFieldsOperationApply)
	})
}

// verify panics if a copy is not what decoding gives.
func (r *resource) verify(back *unstructured.Unstructured, plain []byte) {
	want, err := r.decode(plain, 0)
	if err != nil {
		panic(fmt.Sprintf("store: what was stored cannot be read back: %v: %s", err, plain))
	}
	if got := runtime.Object(back); !reflect.DeepEqual(got, want) {
		panic(fmt.Sprintf("store: a copy of what was stored is not what is read back:\n%#v\n%#v", got, want))
	}
}

// unconverted tells whether u was stored in its own version. The encoder sorts keys, so the version comes first.
func unconverted(u *unstructured.Unstructured, plain []byte) bool {
	version, ok := u.Object["apiVersion"].(string)
	if !ok {
		return false
	}
	rest, ok := bytes.CutPrefix(plain, []byte(`{"apiVersion":"`))
	return ok && len(rest) > len(version) && string(rest[:len(version)]) == version && rest[len(version)] == '"'
}

// readBack copies v as JSON gives it back. ok is false where that takes more than a copy: a null, over which
// schemas have a say; an empty field of metadata (that of an embedded object too), which is dropped; a string
// that JSON cannot hold; a type that JSON does not make.
func readBack(v any) (_ any, ok bool) {
	switch v := v.(type) {
	case map[string]any:
		if v == nil {
			return nil, false
		}
		out := maps.Clone(v) // sized right, and cheaper than key by key
		for k, x := range v {
			if !utf8.ValidString(k) {
				return nil, false
			}
			if k == "metadata" && hasEmpty(x) {
				return nil, false
			}
			y, ok := readBack(x)
			if !ok {
				return nil, false
			}
			out[k] = y
		}
		return out, true
	case []any:
		if v == nil {
			return nil, false
		}
		out := make([]any, len(v))
		for i, x := range v {
			y, ok := readBack(x)
			if !ok {
				return nil, false
			}
			out[i] = y
		}
		return out, true
	case string:
		return v, utf8.ValidString(v)
	case bool, int64:
		return v, true
	case float64:
		return readBackFloat(v), true
	}
	return nil, false
}

// readBackFloat is the number that encoding/json writes and k8s.io/apimachinery/pkg/util/json reads: whole numbers
// that fit become integers.
func readBackFloat(f float64) any {
	const least, most = 1e-6, 1e21 // outside, encoding/json writes an exponent
	if a := max(f, -f); a != 0 && (a < least || a >= most) {
		return f
	}
	if n, err := strconv.ParseInt(strconv.FormatFloat(f, 'f', -1, 64), 10, 64); err == nil {
		return n
	}
	return f
}

// hasEmpty tells whether metadata has a field that the type ObjectMeta leaves out when it is empty.
func hasEmpty(metadata any) bool {
	m, _ := metadata.(map[string]any)
	for k, v := range m {
		switch v := v.(type) {
		case string:
			if v == "" {
				return true
			}
		case int64:
			if v == 0 && k == "generation" {
				return true
			}
		case map[string]any:
			if len(v) == 0 {
				return true
			}
		case []any:
			if len(v) == 0 {
				return true
			}
		}
	}
	return false
}
