package conformance

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"

	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	cbor "k8s.io/apimachinery/pkg/runtime/serializer/cbor/direct"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/yaml"
)

var reference = regexp.MustCompile(`\$\{[^}]*\}`)

// binding gives references their meaning on one server.
type binding struct {
	namespace string
	answers   map[int]*Answer
	current   *Answer // what [Op.Read] of the present operation has shown; nil for nothing
	now       func() time.Time
	hooks     Webhooks
}

func (b *binding) text(s string) string {
	if !strings.Contains(s, "${") {
		return s
	}
	return reference.ReplaceAllStringFunc(s, func(ref string) string { return b.value(ref[2 : len(ref)-1]) })
}

func (b *binding) value(ref string) string {
	switch ref {
	case "ns":
		return b.namespace
	case "hook":
		return b.hooks.URL
	case "hookCA":
		return base64.StdEncoding.EncodeToString(b.hooks.CA)
	}
	if what, n, ok := strings.Cut(ref, ":"); ok {
		times, _ := strconv.Atoi(n)
		switch what {
		case "nest":
			return strings.Repeat("[", times)
		case "fill":
			return strings.Repeat("x", times)
		}
	}
	if n, ok := strings.CutPrefix(ref, "now+"); ok {
		s, _ := strconv.Atoi(n)
		return b.now().Add(time.Duration(s) * time.Second).UTC().Format(time.RFC3339)
	}
	id, path, _ := strings.Cut(ref, ".")
	n, _ := strconv.Atoi(id)
	return b.field(n, path)
}

// field is a field of an answer as text. What is not there reads the same on both servers.
func (b *binding) field(id int, path string) string {
	a := b.answers[id]
	if a == nil {
		return "nothing"
	}
	v := a.Object
	for _, p := range strings.Split(path, ".") {
		switch x := v.(type) {
		case map[string]any:
			v = x[p]
		case []any:
			i, err := strconv.Atoi(p)
			if err != nil || i >= len(x) {
				return "nothing"
			}
			v = x[i]
		default:
			return "nothing"
		}
	}
	switch v := v.(type) {
	case string:
		return v
	case json.Number:
		return v.String()
	}
	return "nothing"
}

// body is what is to be sent for op.
func (b *binding) body(op *Op) ([]byte, error) {
	body := []byte(b.text(op.Body))
	base := b.answers[op.From]
	if op.Read != "" && b.current != nil {
		base = b.current
	}
	if op.From != 0 || op.Read != "" && base != nil {
		body = []byte("{}")
		if base != nil && base.Object != nil {
			body, _ = json.Marshal(base.Object) // decoded JSON
		}
		if len(op.Edit) > 0 {
			edited, err := jsonpatch.MergePatch(body, []byte(b.text(string(op.Edit))))
			if err != nil {
				return nil, fmt.Errorf("operation %d: edit: %w", op.ID, err)
			}
			body = edited
		}
	}
	return encode(op.As, body)
}

// encode turns JSON into another form. What has no such form is left as it is.
func encode(as string, body []byte) ([]byte, error) {
	switch as {
	case "yaml":
		if y, err := yaml.JSONToYAML(body); err == nil {
			return y, nil
		}
	case "cbor":
		v := parse(body)
		if v == nil {
			return body, nil
		}
		return cbor.Marshal(numbers(v))
	case "protobuf":
		obj, gvk, err := scheme.Codecs.UniversalDeserializer().Decode(body, nil, nil)
		if err != nil {
			return body, nil //nolint:nilerr // JSON under the wrong name is a request as well
		}
		info, _ := runtime.SerializerInfoForMediaType(scheme.Codecs.SupportedMediaTypes(), runtime.ContentTypeProtobuf)
		obj.GetObjectKind().SetGroupVersionKind(*gvk)
		var out bytes.Buffer
		err = info.Serializer.Encode(obj, &out)
		return out.Bytes(), err
	}
	return body, nil
}

// kindOf is a built-in kind's group, version and kind; ok is false for others.
func kindOf(apiVersion, kind string) (runtime.Object, bool) {
	obj, err := scheme.Scheme.New(schema.FromAPIVersionAndKind(apiVersion, kind))
	return obj, err == nil
}
