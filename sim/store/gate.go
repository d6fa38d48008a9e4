package store

import (
	"context"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
)

// Gate stands between the store and every external watch.
type Gate interface {
	// Deliver is called before an event is handed to its client, one event of a stream at a time and
	// from that stream's own goroutine. The event goes out when Deliver returns nil; until then
	// neither it nor any later one of the same stream does. ctx ends when the client leaves: then
	// Deliver must return, and its result does not matter.
	//
	// An error ends the stream. If it is a Kubernetes API error (apierrors.APIStatus, such as
	// apierrors.NewResourceExpired) the client gets it as an ERROR event first.
	Deliver(ctx context.Context, w WatchInfo, ev Event) error
}

// GateFunc is a Gate of one function.
type GateFunc func(ctx context.Context, w WatchInfo, ev Event) error

// Deliver implements Gate.
func (f GateFunc) Deliver(ctx context.Context, w WatchInfo, ev Event) error { return f(ctx, w, ev) }

// WatchInfo describes one watch stream.
type WatchInfo struct {
	// ID numbers the streams of a store in the order of their beginning, from 1.
	ID       uint64
	Resource schema.GroupResource
	// Namespace and Name are what the stream is narrowed to, "" for all.
	Namespace, Name string
	Client          Client
}

// Event is one event on its way to a client.
type Event struct {
	Type watch.EventType // Added, Modified, Deleted or Bookmark
	// Object is shared and must not be changed. It is in the server's internal form; read its
	// metadata with meta.Accessor.
	Object          runtime.Object
	Namespace, Name string // of the object; "" for a bookmark
	ResourceVersion uint64
	// Initial is set for the ADDED events that stand for objects present when the watch began, and
	// for the bookmark that ends them.
	Initial bool
}

// SetGate replaces the gate; nil removes it. Streams that began without a gate may already hold up to
// streamBuffer events that pass the new one by, so set it before clients come.
func (s *Store) SetGate(g Gate) { s.gate.Store(&g) }

func (s *Store) currentGate() Gate {
	if p := s.gate.Load(); p != nil {
		return *p
	}
	return nil
}

func gateEvent(ev watch.Event, rev uint64, initial bool) Event {
	out := Event{Type: ev.Type, Object: ev.Object, ResourceVersion: rev, Initial: initial}
	if m, err := meta.Accessor(ev.Object); err == nil && ev.Type != watch.Bookmark {
		out.Namespace, out.Name = m.GetNamespace(), m.GetName()
	}
	return out
}
