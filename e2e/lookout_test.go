package e2e

import (
	"bytes"
	"sync"
)

// lookout is a writer that says when a phrase has passed.
type lookout struct {
	mu     sync.Mutex
	into   *bytes.Buffer
	phrase string
	seen   chan struct{}
}

func (l *lookout) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	n, err := l.into.Write(p)
	l.look()
	return n, err
}

// wait returns a channel that is closed when the phrase has passed.
func (l *lookout) wait(phrase string) <-chan struct{} {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.phrase, l.seen = phrase, make(chan struct{})
	seen := l.seen
	l.look()
	return seen
}

func (l *lookout) look() {
	if l.seen != nil && bytes.Contains(l.into.Bytes(), []byte(l.phrase)) {
		close(l.seen)
		l.seen = nil
	}
}
