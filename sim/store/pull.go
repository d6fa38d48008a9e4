package store

import (
	"context"
	"errors"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/watch"
)

// Puller takes external watches over from the store: a stream that begins with a Puller in its context
// has no goroutine and is not gated. Whoever holds it pulls its events one by one, at times of its own.
type Puller interface {
	// Began is called from within the watch request, before it returns to its handler.
	Began(*Stream)
}

type pullerKey struct{}

// WithPuller hands watches that begin with the returned context to P.
func WithPuller(ctx context.Context, p Puller) context.Context {
	return context.WithValue(ctx, pullerKey{}, p)
}

func pullerFrom(ctx context.Context) Puller {
	p, _ := ctx.Value(pullerKey{}).(Puller)
	return p
}

// Stream is a watch that is pulled. Its methods are for one goroutine.
type Stream struct {
	w     *stream
	head  *pulled
	ended bool
}

// pulled is the next event, ready.
type pulled struct {
	out  watch.Event
	in   Event
	last bool // nothing follows: the stream failed
}

// Info describes the stream.
func (s *Stream) Info() WatchInfo { return s.w.info }

// Peek is the next event; ok is false when there is none yet or the stream has ended. An event of type
// ERROR is the stream's last.
func (s *Stream) Peek() (ev Event, ok bool) {
	if s.head == nil && !s.ended {
		s.head = s.pull()
	}
	if s.head == nil {
		return Event{}, false
	}
	return s.head.in, true
}

func (s *Stream) pull() *pulled {
	for {
		it, ok := s.w.next()
		if !ok {
			return nil
		}
		if it.end {
			s.ended = true
			return nil
		}
		ev, rev, err := s.w.event(it)
		var status apierrors.APIStatus
		switch {
		case errors.As(err, &status):
			st := status.Status()
			return &pulled{out: watch.Event{Type: watch.Error, Object: &st}, in: Event{Type: watch.Error, Object: &st}, last: true}
		case err != nil:
			s.ended = true
			return nil
		case ev.Type != "":
			return &pulled{out: ev, in: gateEvent(ev, rev, it.initial)}
		}
	}
}

// Take removes the event that Peek has shown and returns it in the form to be sent to the handler, by C.
func (s *Stream) Take() watch.Event {
	head := s.head
	s.head = nil
	s.ended = s.ended || head.last
	return head.out
}

// Ended reports whether nothing will follow: close C then.
func (s *Stream) Ended() bool { return s.ended && s.head == nil || s.w.ctx.Err() != nil }

// Bookmarks says whether the client has asked for bookmarks.
func (s *Stream) Bookmarks() bool { return s.w.bookmarks }

// Bookmark has the stream send one, with the newest version, behind the events that it has yet to get; none if nothing
// has happened since it began (k8s.io/apiserver/pkg/storage/cacher, cacheWatcher.process).
func (s *Stream) Bookmark() {
	s.w.r.s.mu.Lock()
	defer s.w.r.s.mu.Unlock()
	s.w.bookmarkDue = s.w.bookmarkDue || s.w.bookmarks && s.w.r.s.state.rev > s.w.began
}

// C is the channel on which the handler waits for events.
func (s *Stream) C() chan watch.Event { return s.w.out }
