package apiserver

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"
)

// cancelled is a context that ends when it has been asked for its state N times: at a different place of the
// start each time, without a clock.
type cancelled struct {
	context.Context
	mu   sync.Mutex
	left int
	done chan struct{}
}

func (c *cancelled) Done() <-chan struct{} {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.left--; c.left == 0 {
		close(c.done)
	}
	return c.done
}

func (c *cancelled) Err() error {
	select {
	case <-c.done:
		return context.Canceled
	default:
		return nil
	}
}

func (c *cancelled) Deadline() (time.Time, bool) { return time.Time{}, false }

// A start that is cancelled returns an error; the API server's own start hooks, which end the process
// when they fail, must not be stopped half-way.
func TestStartIsCancelled(t *testing.T) {
	for _, n := range []int{1, 3, 10} {
		ctx := &cancelled{Context: context.Background(), left: n, done: make(chan struct{})}
		s, err := New(ctx, Options{})
		if err == nil {
			s.Close()
			t.Fatalf("cancelled at the %d. look: no error", n)
		}
		if !errors.Is(err, context.Canceled) {
			t.Errorf("cancelled at the %d. look: %v", n, err)
		}
	}
	s, err := New(context.Background(), Options{})
	if err != nil {
		t.Fatalf("after cancelled starts: %v", err)
	}
	s.Close()
}
