package conformance

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"io"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// frameHeader is the length of a frame's length.
const frameHeader = 4

// readFrames reads the events of a watch in protobuf: four bytes of length, big-endian, and a WatchEvent
// (k8s.io/apimachinery/pkg/runtime/serializer/protobuf, lengthDelimitedFramer).
func (w *stream) readFrames(r io.Reader) {
	for {
		var length [frameHeader]byte
		if _, err := io.ReadFull(r, length[:]); err != nil {
			return
		}
		frame := make([]byte, binary.BigEndian.Uint32(length[:]))
		if _, err := io.ReadFull(r, frame); err != nil {
			return
		}
		ev := metav1.WatchEvent{}
		if err := ev.Unmarshal(frame); err != nil {
			w.add(map[string]any{"type": "a frame that is no event", "object": err.Error()})
			continue
		}
		w.add(map[string]any{"type": ev.Type, "object": fromProtobuf(ev.Object.Raw)})
	}
}

// text is a decoded JSON value as text.
func text(v any) string {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return err.Error()
	}
	return strings.TrimSuffix(b.String(), "\n")
}
