package apicall

import (
	"encoding/json"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer/cbor/direct"
)

func must(t *testing.T, f func() ([]byte, error)) []byte {
	t.Helper()
	b, err := f()
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func configMap() *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "c", ResourceVersion: "7"}, Data: map[string]string{"a": "<"}}
}

// unknownOf wraps a protobuf object in its envelope, without the magic bytes.
func unknownOf(apiVersion, kind string, object interface{ Marshal() ([]byte, error) }) func() ([]byte, error) {
	return func() ([]byte, error) {
		raw, err := object.Marshal()
		if err != nil {
			return nil, err
		}
		u := runtime.Unknown{TypeMeta: runtime.TypeMeta{APIVersion: apiVersion, Kind: kind}, Raw: raw}
		return u.Marshal()
	}
}

func protobufBody(t *testing.T, apiVersion, kind string, object interface{ Marshal() ([]byte, error) }) []byte {
	t.Helper()
	return append([]byte("k8s\x00"), must(t, unknownOf(apiVersion, kind, object))...)
}

func TestToJSON(t *testing.T) {
	cbor := must(t, func() ([]byte, error) { return direct.Marshal(map[string]any{"spec": map[string]any{"a": 1}}) })
	zero := int64(0)
	for name, c := range map[string]struct{ contentType, body, want string }{
		"json":              {"application/json; charset=utf-8", "{\"b\":1,\"a\":2.0}\n", `{"b":1,"a":2.0}`},
		"indented":          {"application/json", "{\n  \"b\": [\n 1 ]}\n", `{"b":[1]}`},
		"no content type":   {"", `{"a":1}`, `{"a":1}`},
		"json patch":        {"application/json-patch+json", `[{"op":"remove","path":"/a"}]`, `[{"op":"remove","path":"/a"}]`},
		"yaml":              {"application/yaml", "a: 1\nb:\n- x\n", `{"a":1,"b":["x"]}`},
		"apply":             {"application/apply-patch+yaml", `{"b":1,"a":2}`, `{"b":1,"a":2}`},
		"apply, real yaml":  {"application/apply-patch+yaml", "kind: X\n", `{"kind":"X"}`},
		"cbor":              {"application/cbor", string(cbor), `{"spec":{"a":1}}`},
		"protobuf":          {"application/vnd.kubernetes.protobuf", string(protobufBody(t, "v1", "ConfigMap", configMap())), `{"kind":"ConfigMap","apiVersion":"v1","metadata":{"name":"c","resourceVersion":"7"},"data":{"a":"\u003c"}}`},
		"protobuf options":  {"application/vnd.kubernetes.protobuf", string(protobufBody(t, "apps/v1", "DeleteOptions", &metav1.DeleteOptions{GracePeriodSeconds: &zero})), `{"kind":"DeleteOptions","apiVersion":"apps/v1","gracePeriodSeconds":0}`},
		"protobuf metadata": {"application/vnd.kubernetes.protobuf", string(protobufBody(t, "meta.k8s.io/v1", "PartialObjectMetadata", &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Name: "x"}})), `{"kind":"PartialObjectMetadata","apiVersion":"meta.k8s.io/v1","metadata":{"name":"x"}}`},
	} {
		got, err := toJSON(mediaType(c.contentType), []byte(c.body))
		if err != nil || string(got) != c.want || !json.Valid(got) {
			t.Errorf("%s: %s, %v\nwant %s", name, got, err, c.want)
		}
	}
}

func TestToJSONFails(t *testing.T) {
	for name, c := range map[string]struct{ contentType, body, want string }{
		"json":               {"application/json", `{"a":`, "not JSON"},
		"yaml":               {"application/yaml", "a: [", "not YAML"},
		"cbor":               {"application/cbor", "\xff", "not CBOR"},
		"protobuf":           {"application/vnd.kubernetes.protobuf", "k8s\x00\xff\xff", "broken"},
		"protobuf magic":     {"application/vnd.kubernetes.protobuf", "rubbish", "broken"},
		"protobuf kind":      {"application/vnd.kubernetes.protobuf", string(protobufBody(t, "zoo.example.com/v1", "Widget", configMap())), "unknown kind zoo.example.com/v1, Kind=Widget"},
		"unknown media type": {"image/png", "x", "image/png"},
	} {
		if got, err := toJSON(mediaType(c.contentType), []byte(c.body)); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %q, %v", name, got, err)
		}
	}
}
