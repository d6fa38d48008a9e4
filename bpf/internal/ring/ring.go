//go:build linux

package ring

import (
	"context"
	"errors"
	"os"
	"sync/atomic"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/ringbuf"

	"github.com/opreplay/opreplay/bpf/internal/clock"
)

const (
	look = 100 * time.Millisecond // how often the buffer is looked at
	// straggling is how long after it was stamped a record may take to reach the buffer: the rest of its
	// program's run.
	straggling = 5 * time.Millisecond
)

// Reader reads a ring buffer. Next and Look are for one goroutine, Seen for any.
type Reader struct {
	source source
	now    func() time.Duration
	record ringbuf.Record
	seen   atomic.Int64
}

// source is a *ringbuf.Reader.
type source interface {
	SetDeadline(time.Time)
	ReadInto(*ringbuf.Record) error
	AvailableBytes() int
	Close() error
}

// Open reads from M.
func Open(m *ebpf.Map) (*Reader, error) {
	r, err := ringbuf.NewReader(m)
	if err != nil {
		return nil, err
	}
	return &Reader{source: r, now: clock.Monotonic}, nil
}

// Look gives the next record, or nil when none came within a tenth of a second. It is good until the next call.
func (r *Reader) Look() ([]byte, error) {
	before := r.now() // what is handed over from here on may not have been seen when nothing is found
	r.source.SetDeadline(time.Now().Add(look))
	err := r.source.ReadInto(&r.record)
	if errors.Is(err, os.ErrDeadlineExceeded) {
		r.seen.Store(int64(before - straggling))
		return nil, nil
	} else if err != nil {
		return nil, err
	}
	return r.record.RawSample, nil
}

// Next waits for the next record, which is good until the next call. It ends with CTX's error.
func (r *Reader) Next(ctx context.Context) ([]byte, error) {
	for {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		if record, err := r.Look(); record != nil || err != nil {
			return record, err
		}
	}
}

// Seen is the time on CLOCK_MONOTONIC up to which all has been returned.
func (r *Reader) Seen() time.Duration { return time.Duration(r.seen.Load()) }

// Pending is how many bytes wait to be read.
func (r *Reader) Pending() int { return r.source.AvailableBytes() }

// Close ends the reading.
func (r *Reader) Close() error { return r.source.Close() }

// Count is the sum over all processors of counter I of the map COUNTERS.
func Count(counters *ebpf.Map, i uint32) (sum uint64, err error) {
	var each []uint64
	if err := counters.Lookup(i, &each); err != nil {
		return 0, err
	}
	for _, n := range each {
		sum += n
	}
	return sum, nil
}
