package probes

import (
	"bytes"
	"encoding/binary"
	"testing"
	"time"
)

func TestKeysOfStringQueues(t *testing.T) {
	for key, want := range map[string][2]string{
		"space/name": {"space", "name"}, "name": {"", "name"}, "": {"", ""}, "a/b/c": {"", "a/b/c"}, "/name": {"", "name"},
	} {
		if namespace, name := splitKey(key); namespace != want[0] || name != want[1] {
			t.Errorf("%q is %q and %q", key, namespace, name)
		}
	}
}

// part is a record of type BODY.
func part(ts uint64, off int, data []byte) rawEvent {
	r := make([]byte, bodyHead, bodyHead+len(data))
	binary.LittleEndian.PutUint32(r[4:], uint32(len(data)))
	binary.LittleEndian.PutUint64(r[8:], ts)
	binary.LittleEndian.PutUint32(r[20:], uint32(off))
	return append(r, data...)
}

// A body is whole or not there, and what has no event to go to does not stay for ever.
func TestBodies(t *testing.T) {
	var b bodies
	add := func(ts uint64, off, n int) {
		t.Helper()
		if err := b.add(part(ts, off, bytes.Repeat([]byte("x"), n))); err != nil {
			t.Fatal(err)
		}
	}
	of := func(ts uint64, n int) int { return len(b.of(&Event{Time: time.Duration(ts), BodyLength: int64(n)})) }
	add(1, 0, 10)
	add(1, 10, 5)
	if n := of(1, 15); n != 15 {
		t.Errorf("%d of 15 bytes", n)
	}
	add(2, 0, 10)
	add(2, 20, 5) // 10 to 20 were lost
	if n := of(2, 25); n != 0 {
		t.Errorf("%d bytes of a body with a hole", n)
	}
	for ts := range uint64(3 * maxBodies) { // whose first parts, and whose events, were lost
		add(ts+10, 10, 5)
	}
	if len(b.waiting) != 0 || len(b.order) > 1 || b.bytes != 0 {
		t.Errorf("%d bodies of %d bytes wait, %d in their order", len(b.waiting), b.bytes, len(b.order))
	}
	for ts := range uint64(3 * maxBodies) { // whose events were lost
		add(ts+10, 0, 5)
	}
	if len(b.order) > maxBodies || len(b.waiting) > maxBodies {
		t.Errorf("%d bodies wait, %d in their order", len(b.waiting), len(b.order))
	}
	for ts := range uint64(100) {
		add(ts+1<<32, 0, 1<<20)
	}
	if b.bytes > maxBody {
		t.Errorf("%d bytes wait", b.bytes)
	}
	for n := range bodyHead + 5 {
		if b.add(part(7, 0, []byte("12345"))[:n]) == nil {
			t.Errorf("%d bytes were enough", n)
		}
	}
}
