//go:build linux

package ring

import (
	"context"
	"errors"
	"os"
	"testing"
	"time"

	"github.com/cilium/ebpf/ringbuf"
)

// script is a ring buffer whose records come at given times of a clock that moves a millisecond with each look
// at it; a look takes ten.
type script struct {
	clock   time.Duration
	records []time.Duration
}

func (s *script) now() time.Duration {
	s.clock += time.Millisecond
	return s.clock
}

func (s *script) ReadInto(r *ringbuf.Record) error {
	found := len(s.records) > 0 && s.records[0] <= s.clock
	s.clock += 10 * time.Millisecond // what comes meanwhile is not found
	if !found {
		return os.ErrDeadlineExceeded
	}
	r.RawSample = []byte(s.records[0].String())
	s.records = s.records[1:]
	return nil
}

func (*script) SetDeadline(time.Time) {}
func (*script) AvailableBytes() int   { return 0 }
func (*script) Close() error          { return nil }

// What was handed over while the reader looked has not been seen when it says up to when it has seen all.
func TestSeenIsNeverAheadOfWhatWasReturned(t *testing.T) {
	const ms = time.Millisecond
	s := &script{clock: 100 * ms, records: []time.Duration{103 * ms, 104 * ms, 130 * ms, 131 * ms, 147 * ms, 190 * ms}}
	r := &Reader{source: s, now: s.now}
	var seen time.Duration
	for range 40 {
		record, err := r.Look()
		if err != nil {
			t.Fatal(err)
		}
		if record != nil {
			at, err := time.ParseDuration(string(record))
			if err != nil {
				t.Fatal(err)
			}
			if at <= seen {
				t.Errorf("a record of %s, when all up to %s was seen", at, seen)
			}
		}
		if r.Seen() < seen {
			t.Errorf("all was seen up to %s, then up to %s", seen, r.Seen())
		}
		seen = r.Seen()
	}
	if len(s.records) > 0 || seen < 400*ms {
		t.Errorf("%d records left, and all up to %s was seen", len(s.records), seen)
	}
}

func TestNextEndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	s := &script{}
	if _, err := (&Reader{source: s, now: s.now}).Next(ctx); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}
