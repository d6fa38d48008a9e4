package apicall

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"strings"
	"sync"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer/cbor/direct"
	"k8s.io/apimachinery/pkg/runtime/serializer/protobuf"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/yaml"
)

// Media types of the Kubernetes API, without parameters.
const (
	mediaJSON           = "application/json"
	mediaYAML           = "application/yaml"
	mediaProtobuf       = "application/vnd.kubernetes.protobuf"
	mediaCBOR           = "application/cbor"
	mediaCBORSeq        = "application/cbor-seq"
	mediaJSONPatch      = "application/json-patch+json"
	mediaMergePatch     = "application/merge-patch+json"
	mediaStrategicPatch = "application/strategic-merge-patch+json"
	mediaApplyYAML      = "application/apply-patch+yaml"
	mediaApplyCBOR      = "application/apply-patch+cbor"
)

// mediaType is a Content-Type without its parameters; the API server takes a missing one for JSON.
func mediaType(contentType string) string {
	m, _, err := mime.ParseMediaType(contentType)
	if err != nil {
		m, _, _ = strings.Cut(contentType, ";")
		m = strings.ToLower(strings.TrimSpace(m))
	}
	if m == "" {
		return mediaJSON
	}
	return m
}

// toJSON decodes a whole body of the media type to JSON text. JSON comes back as it was but for white
// space around it and indentation.
func toJSON(media string, body []byte) ([]byte, error) {
	switch media {
	case mediaJSON, mediaJSONPatch, mediaMergePatch, mediaStrategicPatch:
		if !json.Valid(body) {
			return nil, errors.New("a JSON body that is not JSON")
		}
		return compact(body), nil
	case mediaYAML, mediaApplyYAML:
		if json.Valid(body) { // JSON is YAML, and what clients mostly send
			return compact(body), nil
		}
		out, err := yaml.YAMLToJSON(body)
		if err != nil {
			return nil, errors.New("a YAML body that is not YAML")
		}
		return out, nil
	case mediaProtobuf:
		return protobufToJSON(body)
	case mediaCBOR, mediaApplyCBOR:
		var v any
		if err := direct.Unmarshal(body, &v); err != nil {
			return nil, errors.New("a CBOR body that is not CBOR")
		}
		return json.Marshal(v)
	}
	return nil, fmt.Errorf("a body of media type %s", media)
}

// protobufDecoder knows the built-in kinds of client-go's scheme, CustomResourceDefinition and the
// partial objects of meta.k8s.io.
var protobufDecoder = sync.OnceValue(func() runtime.Decoder {
	s := runtime.NewScheme()
	utilruntime.Must(clientgoscheme.AddToScheme(s))
	utilruntime.Must(apiextensionsv1.AddToScheme(s))
	utilruntime.Must(metav1.AddMetaToScheme(s))
	return protobuf.NewSerializer(s, s)
})

// protobufToJSON decodes an object in its runtime.Unknown envelope, behind the magic bytes "k8s\x00".
// The JSON is what the API server itself would have written, as long as its version knows the same
// fields as ours.
func protobufToJSON(body []byte) (out []byte, err error) {
	defer func() { // generated Unmarshal code meets bytes from the network
		if p := recover(); p != nil {
			err = fmt.Errorf("a protobuf body that is broken: %v", p)
		}
	}()
	if text := lately.find(body); text != nil {
		return text, nil
	}
	object, gvk, err := protobufDecoder().Decode(body, nil, nil)
	switch {
	case runtime.IsNotRegisteredError(err):
		return nil, fmt.Errorf("a protobuf body of unknown kind %s", gvk)
	case err != nil:
		return nil, fmt.Errorf("a protobuf body that is broken: %w", err)
	}
	out, err = json.Marshal(object)
	if err == nil {
		lately.keep(body, out)
	}
	return out, err
}

// recent holds the last objects that were turned from protobuf into JSON: an object that has been written passes in
// the answer, and then in an event to each of its watchers, as the same bytes.
type recent struct {
	mu   sync.Mutex
	ring [64]struct{ from, to []byte }
	next int
}

var lately recent

// recentMost is the largest object that is kept, in bytes.
const recentMost = 64 << 10

// find is the JSON of the object, or nil. The caller gets a copy: redaction may write to it.
func (r *recent) find(body []byte) []byte {
	r.mu.Lock()
	defer r.mu.Unlock()
	for i := range r.ring {
		if e := &r.ring[i]; len(e.from) == len(body) && bytes.Equal(e.from, body) {
			return bytes.Clone(e.to)
		}
	}
	return nil
}

func (r *recent) keep(body, text []byte) {
	if len(body) > recentMost {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	e := &r.ring[r.next]
	r.next = (r.next + 1) % len(r.ring)
	e.from, e.to = append(e.from[:0], body...), append(e.to[:0], text...)
}

// watchFrame takes a watch's frame apart: its event type and the object as JSON.
func watchFrame(media string, frame []byte) (eventType string, object []byte, err error) {
	if media == mediaProtobuf {
		return protobufFrame(frame)
	}
	end, err := members(frame, 0, func(key string, v span) error {
		switch key {
		case "type":
			eventType = text(frame, v)
		case "object":
			object = compact(v.of(frame))
		}
		return nil
	})
	if err == nil && (skipSpace(frame, end) != len(frame) || eventType == "") {
		err = errors.New("a watch frame without a type")
	}
	return eventType, object, err
}

// ReadWatch reads a watch of JSON frames to its end and calls F for each, with its event type and object.
// What F is given is valid only during the call. An error of F ends the reading and is returned.
func ReadWatch(r io.Reader, f func(eventType string, object []byte) error) error {
	// etcd bounds objects to a few MiB; the limit is against a stream that is no watch at all.
	s := &jsonSplitter{limit: 64 << 20}
	piece := make([]byte, 64<<10)
	for {
		n, readErr := r.Read(piece)
		var err error
		splitErr := s.feed(piece[:n], func(frame []byte) {
			if err != nil {
				return
			}
			var eventType string
			var object []byte
			if eventType, object, err = watchFrame(mediaJSON, frame); err == nil {
				err = f(eventType, object)
			}
		})
		switch {
		case err != nil:
			return err
		case splitErr != nil:
			return splitErr
		case s.oversized() > 0:
			return errTooLarge
		case errors.Is(readErr, io.EOF):
			return nil
		case readErr != nil:
			return readErr
		}
	}
}

// protobufFrame: a metav1.WatchEvent without an envelope, whose object has one.
func protobufFrame(frame []byte) (eventType string, object []byte, err error) {
	var e metav1.WatchEvent
	if err := e.Unmarshal(frame); err != nil {
		return "", nil, fmt.Errorf("a protobuf watch frame that is broken: %w", err)
	}
	if len(e.Object.Raw) > 0 {
		object, err = protobufToJSON(e.Object.Raw)
	}
	return e.Type, object, err
}

// gunzip decodes a gzip body of at most limit bytes.
func gunzip(body []byte, limit int) ([]byte, error) {
	z, err := gzip.NewReader(bytes.NewReader(body))
	if err != nil {
		return nil, errors.New("a gzip body that is not gzip")
	}
	out, err := io.ReadAll(io.LimitReader(z, int64(limit)+1))
	switch {
	case err != nil:
		return nil, errors.New("a gzip body that is broken")
	case len(out) > limit:
		return nil, errTooLarge
	}
	return out, nil
}

var errTooLarge = errors.New("a body over the limit")
