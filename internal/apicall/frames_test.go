package apicall

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// split feeds STREAM in pieces whose lengths CUTS gives, over and over.
func split(s splitter, stream, cuts []byte) (frames []string, err error) {
	for i := 0; len(stream) > 0; i++ {
		n := len(stream)
		if len(cuts) > 0 {
			n = min(n, int(cuts[i%len(cuts)])+1)
		}
		if err := s.feed(slices.Clone(stream[:n]), func(f []byte) { frames = append(frames, string(f)) }); err != nil {
			return frames, err
		}
		stream = stream[n:]
	}
	return frames, nil
}

func TestJSONFrames(t *testing.T) {
	for _, c := range []struct {
		stream string
		want   []string
	}{
		{"", nil},
		{`{"a":1}` + "\n" + `{"b":2}` + "\n", []string{`{"a":1}`, `{"b":2}`}},
		{`{"a":1}{"b":2}`, []string{`{"a":1}`, `{"b":2}`}},
		{"\r\n\t {}\n\n{} ", []string{`{}`, `{}`}},
		{`{"a":"}{","b":"\"}","c":"\\"}{}`, []string{`{"a":"}{","b":"\"}","c":"\\"}`, `{}`}},
		{`{"a":[{"b":[]}]}{"half":`, []string{`{"a":[{"b":[]}]}`}},
	} {
		for _, cuts := range [][]byte{nil, {0}, {1}, {0, 3, 1}} {
			got, err := split(&jsonSplitter{limit: 100}, []byte(c.stream), cuts)
			if err != nil || !slices.Equal(got, c.want) {
				t.Errorf("%q cut by %v: %q, %v", c.stream, cuts, got, err)
			}
		}
	}
	for _, bad := range []string{`x`, `{} x`, `{}}`, `"text"`, `{},{}`} {
		if got, err := split(&jsonSplitter{limit: 100}, []byte(bad), nil); err == nil {
			t.Errorf("%q: no error, frames %q", bad, got)
		}
	}
}

func TestFramesOverTheLimit(t *testing.T) {
	big := `{"a":"` + strings.Repeat("x", 50) + `"}`
	stream := `{"n":1}` + big + `{"n":2}` + big + `{"n":3}`
	for _, cuts := range [][]byte{nil, {0}, {16}} {
		s := &jsonSplitter{limit: 20}
		got, err := split(s, []byte(stream), cuts)
		if err != nil || !slices.Equal(got, []string{`{"n":1}`, `{"n":2}`, `{"n":3}`}) || s.oversized() != 2 {
			t.Errorf("cut by %v: %q, %d over, %v", cuts, got, s.oversized(), err)
		}
		if cap(s.partial) > 64 {
			t.Errorf("%d bytes are held", cap(s.partial))
		}
	}
	var lengths []byte
	for _, f := range []string{"one", strings.Repeat("x", 50), "two", ""} {
		lengths = append(binary.BigEndian.AppendUint32(lengths, uint32(len(f))), f...)
	}
	for _, cuts := range [][]byte{nil, {0}, {2}, {16}} {
		s := &lengthSplitter{limit: 20}
		got, err := split(s, lengths, cuts)
		if err != nil || !slices.Equal(got, []string{"one", "two", ""}) || s.oversized() != 1 {
			t.Errorf("cut by %v: %q, %d over, %v", cuts, got, s.oversized(), err)
		}
	}
}

// However the network cuts a stream, its frames are the same.
func FuzzJSONFrames(f *testing.F) {
	f.Add([]byte(`{"type":"ADDED","object":{"a":"}\"{"}}`+"\n{}"), []byte{0})
	f.Add([]byte(`{"a":[1,2,{"b":null}]} {"c":"\\"}x`), []byte{2, 0, 7})
	f.Add([]byte(`{"`+strings.Repeat("y", 200)+`":1}{}`), []byte{30})
	f.Fuzz(func(t *testing.T, stream, cuts []byte) {
		whole, cut := &jsonSplitter{limit: 100}, &jsonSplitter{limit: 100}
		want, wantErr := split(whole, stream, nil)
		got, gotErr := split(cut, stream, cuts)
		if !slices.Equal(got, want) || (gotErr == nil) != (wantErr == nil) || whole.oversized() != cut.oversized() {
			t.Fatalf("%q cut by %v:\n got %q, %v\nwant %q, %v", stream, cuts, got, gotErr, want, wantErr)
		}
		agreesWithEncodingJSON(t, stream, want, whole.oversized())
	})
}

// agreesWithEncodingJSON: of a stream of JSON objects the frames are those objects.
func agreesWithEncodingJSON(t *testing.T, stream []byte, got []string, over int64) {
	t.Helper()
	dec := json.NewDecoder(bytes.NewReader(stream))
	var want []string
	for dec.More() {
		var m json.RawMessage
		if dec.Decode(&m) != nil || m[0] != '{' {
			return
		}
		want = append(want, string(m))
	}
	if over == 0 && len(got) >= len(want) && !slices.Equal(got[:len(want)], want) || over == 0 && len(got) < len(want) {
		t.Fatalf("%q: frames %q, encoding/json has %q", stream, got, want)
	}
}

func FuzzLengthFrames(f *testing.F) {
	f.Add([]byte{0, 0, 0, 1, 'a', 0, 0, 0, 0, 0, 0, 0, 2, 'b', 'c'}, []byte{0})
	f.Add([]byte{0, 0, 1, 0, 'a'}, []byte{3, 1})
	f.Fuzz(func(t *testing.T, stream, cuts []byte) {
		whole, cut := &lengthSplitter{limit: 100}, &lengthSplitter{limit: 100}
		want, _ := split(whole, stream, nil)
		got, _ := split(cut, stream, cuts)
		if !slices.Equal(got, want) || whole.oversized() != cut.oversized() {
			t.Fatalf("%v cut by %v:\n got %q\nwant %q", stream, cuts, got, want)
		}
	})
}

// The walker finds what encoding/json finds, and never panics.
func FuzzWalk(f *testing.F) {
	f.Add([]byte(`{"kind":"Pod","metadata":{"name":"a\"b","uid":"u","managedFields":[{"manager":"m","time":"t"}]},"items":[{},null,1]}`))
	f.Add([]byte(`{"metadata":{"name":5},"k":[[]],"details":{"uid":"x"}}`))
	f.Add([]byte(` {"a" : [ 1 , 2 ] } `))
	f.Fuzz(func(t *testing.T, doc []byte) {
		m, err := ParseMeta(doc)
		_, _ = ParseList(doc)
		_, _ = Secrets([]byte("k")).Redact(Subject{Resource: "secrets"}, doc)
		_, _ = Secrets([]byte("k")).Redact(Subject{Resource: "secrets", JSONPatch: true}, doc)
		_, _, _ = watchFrame(mediaProtobuf, doc)
		var object map[string]json.RawMessage
		if json.Unmarshal(doc, &object) != nil || object == nil {
			return
		}
		if err != nil {
			t.Fatalf("%q is an object: %v", doc, err)
		}
		var name string
		if len(object) == 1 && json.Unmarshal(object["kind"], &name) == nil && name != m.Kind {
			t.Fatalf("%q: kind %q, want %q", doc, m.Kind, name)
		}
	})
}

func TestProtobufFrame(t *testing.T) {
	object := []byte("k8s\x00")
	object = append(object, must(t, unknownOf("v1", "ConfigMap", configMap()))...)
	e := metav1.WatchEvent{Type: "MODIFIED"}
	e.Object.Raw = object
	frame := must(t, func() ([]byte, error) { return e.Marshal() })
	eventType, got, err := watchFrame(mediaProtobuf, frame)
	if want := `{"kind":"ConfigMap","apiVersion":"v1","metadata":{"name":"c","resourceVersion":"7"},"data":{"a":"\u003c"}}`; err != nil || eventType != "MODIFIED" || string(got) != want {
		t.Errorf("%s %s, %v\nwant %s", eventType, got, err, want)
	}
}
