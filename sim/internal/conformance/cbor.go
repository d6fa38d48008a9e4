package conformance

import (
	"encoding/json"
	"errors"
	"io"

	"k8s.io/apimachinery/pkg/runtime/serializer/cbor"
	"k8s.io/apimachinery/pkg/runtime/serializer/cbor/direct"
)

// InCBOR is a sequence that asks in CBOR (RFC 8949) what S asks in JSON, and for answers in it two times of three.
func InCBOR(s *Sequence) *Sequence {
	out := *s
	out.Ops = nil
	for _, op := range s.Ops {
		c := *op
		if c.Do != Await {
			if c.Accept == "" && c.ID%3 != 0 {
				c.Accept = cborType
			}
			switch {
			case c.As != "":
			case c.Type == jsonType && c.Body+string(c.Edit) != "":
				c.Type, c.As = cborType, "cbor"
			case c.Type == applyPatch:
				c.Type, c.As = applyCBOR, "cbor"
			}
		}
		out.Ops = append(out.Ops, &c)
	}
	return &out
}

// numbers has integers as such: CBOR tells them from others.
func numbers(v any) any {
	switch v := v.(type) {
	case map[string]any:
		for k := range v {
			v[k] = numbers(v[k])
		}
	case []any:
		for i := range v {
			v[i] = numbers(v[i])
		}
	case json.Number:
		if n, err := v.Int64(); err == nil {
			return n
		}
		if f, err := v.Float64(); err == nil {
			return f
		}
		return v.String()
	}
	return v
}

func fromCBOR(body []byte) any {
	var v any
	if direct.Unmarshal(body, &v) != nil {
		return nil
	}
	j, err := json.Marshal(v)
	if err != nil {
		return nil
	}
	return parse(j)
}

// readItems reads the events of a watch in CBOR: one item behind the other (RFC 8742).
func (w *stream) readItems(r io.ReadCloser) {
	frames := cbor.NewFramer().NewFrameReader(r)
	buffer := make([]byte, 1<<20)
	for {
		var item []byte
		n, err := frames.Read(buffer)
		for item = append(item, buffer[:n]...); errors.Is(err, io.ErrShortBuffer); item = append(item, buffer[:n]...) {
			n, err = frames.Read(buffer)
		}
		if err != nil {
			return
		}
		w.add(fromCBOR(item))
	}
}
