package analysis

import (
	"context"
	"iter"

	"github.com/opreplay/opreplay/traces"
)

// Records are read ahead of their analysis by another goroutine, in batches, so that on two cores files are unpacked
// beside it. The batches are few: what is read ahead is bounded.
const (
	aheadBatch = 512
	aheadDepth = 4
)

type batch struct {
	records []traces.Record
	err     error
}

// ahead yields what records yields.
func ahead(ctx context.Context, records iter.Seq2[traces.Record, error]) iter.Seq2[traces.Record, error] {
	return func(yield func(traces.Record, error) bool) {
		reading, cancel := context.WithCancel(ctx)
		batches := make(chan batch, aheadDepth)
		go read(reading, records, batches)
		defer func() {
			cancel()
			for range batches { // until the reader has gone, for its files are closed when it goes
			}
		}()
		for b := range batches {
			for _, r := range b.records {
				if !yield(r, nil) {
					return
				}
			}
			if b.err != nil {
				yield(nil, b.err)
				return
			}
		}
		if err := ctx.Err(); err != nil { // the end of the rows may be that of the patience
			yield(nil, err)
		}
	}
}

func read(ctx context.Context, records iter.Seq2[traces.Record, error], to chan<- batch) {
	defer close(to)
	send := func(b batch) bool {
		select {
		case to <- b:
			return true
		case <-ctx.Done():
			return false
		}
	}
	b := batch{}
	for r, err := range records {
		if err != nil {
			b.err = err
			break
		}
		if b.records = append(b.records, r); len(b.records) == aheadBatch {
			if !send(b) {
				return
			}
			b.records = make([]traces.Record, 0, aheadBatch)
		}
	}
	send(b)
}
