package probes

import "fmt"

// Bounds of the bodies that wait for their event.
const (
	maxBody   = 64 << 20 // bytes of all
	maxBodies = 10_000
)

// bodies gathers the parts of requests' bodies, which come ahead of their event. An event that is lost
// leaves its parts behind: the oldest are given up when there are too many.
type bodies struct {
	waiting map[bodyKey][]byte
	order   []bodyKey // of their first parts; those that are given out stay until they are the oldest
	bytes   int
}

// bodyKey is an event by its process and time: the probe that writes parts and event runs to its end on one
// processor, and time does not stand still for two.
type bodyKey struct {
	pid int
	ts  uint64
}

// add takes a record of type BODY.
func (b *bodies) add(r rawEvent) error {
	if len(r) < bodyHead || len(r) < bodyHead+int(r.u32(4)) {
		return fmt.Errorf("a part of a body of %d bytes", len(r))
	}
	k := bodyKey{int(r.u32(16)), r.u64(8)}
	part := r[bodyHead:][:r.u32(4)]
	known, first := b.waiting[k], r.u32(20) == 0
	if int(r.u32(20)) != len(known) {
		return nil // the part before was lost, and counted by the probe: this one can't be placed
	}
	if b.waiting == nil {
		b.waiting = map[bodyKey][]byte{}
	}
	if first {
		b.order = append(b.order, k)
	}
	b.waiting[k] = append(known, part...)
	b.bytes += len(part)
	for len(b.order) > 1 && (b.bytes > maxBody || len(b.order) > maxBodies || b.waiting[b.order[0]] == nil) {
		b.drop(b.order[0])
		b.order = b.order[1:]
	}
	return nil
}

// of is the body of E, nil unless the whole of it was read.
func (b *bodies) of(e *Event) []byte {
	k := bodyKey{e.PID, uint64(e.Time)}
	body := b.waiting[k]
	b.drop(k)
	if int64(len(body)) != e.BodyLength {
		return nil
	}
	return body
}

func (b *bodies) drop(k bodyKey) {
	b.bytes -= len(b.waiting[k])
	delete(b.waiting, k)
}
