package traces

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/parquet-go/parquet-go/compress/zstd"
)

// The journal holds the rows that stand in no finished file yet, in the order of Append. A segment is a file
// journal-NNNN.log of blocks: length and CRC-32C (Castagnoli) of the payload, four bytes each, little-endian, then the
// payload, compressed by zstd. The first block is the segment's header, JSON that names tables and columns; each
// further one is rows (journalrow.go). A segment ends when all files are finished, and is removed once the manifest
// lists them.

const (
	journalBlock = 1 << 20 // of rows, after which a block is written without waiting for the time to sync
	journalHeld  = 64 << 20
	blockHead    = 8
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

func journalName(n int) string { return fmt.Sprintf("journal-%04d.log", n) }

// journals are the journal's files in a folder, in their order.
func journals(dir string) ([]string, error) {
	entries, err := os.ReadDir(dir) // not Glob, to which a trace's name may be a pattern
	if err != nil {
		return nil, err
	}
	var names []string
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), "journal-") && strings.HasSuffix(e.Name(), ".log") {
			names = append(names, filepath.Join(dir, e.Name()))
		}
	}
	slices.SortFunc(names, func(a, b string) int { // after 9999 segments a number has five digits
		if len(a) != len(b) {
			return len(a) - len(b)
		}
		if a < b {
			return -1
		}
		return 1
	})
	return names, nil
}

// journal is that of a Writer.
type journal struct {
	dir    string
	every  time.Duration
	create func(string) (output, error)
	codec  *zstd.Codec

	mu      sync.Mutex
	room    *sync.Cond // of rows
	rows    []byte     // that are in no step yet
	held    int        // bytes of rows in all
	steps   []step
	segment int // that rows are added to
	added   int64
	synced  int64 // of the rows added, how many a crash can no longer take
	failed  error
	closed  bool

	wake chan struct{}
	done chan struct{}

	// Of the writing goroutine.
	out    output
	opened int // files so far: a segment without rows has none
	dirty  bool
	wrote  int64 // rows
	cuts   int
	ended  []ended
}

// ended is the file of a segment that has ended.
type ended struct {
	segment int
	path    string
}

// step is work for the goroutine that writes.
type step struct {
	rows    []byte
	added   int64 // rows up to here
	cut     bool  // ends the segment
	release int   // removes the segments up to this one
}

func newJournal(dir string, every time.Duration, create func(string) (output, error)) *journal {
	j := &journal{
		dir: dir, every: every, create: create, codec: &zstd.Codec{Level: zstd.SpeedFastest, Concurrency: 1},
		segment: 1, wake: make(chan struct{}, 1), done: make(chan struct{}),
	}
	j.room = sync.NewCond(&j.mu)
	go j.run()
	return j
}

// add takes a row. It waits while the disk does not keep up.
func (j *journal) add(k int, r Record) error {
	if j == nil {
		return nil
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	for j.held > journalHeld && j.failed == nil {
		j.room.Wait()
	}
	if j.failed != nil {
		return j.failed
	}
	before := len(j.rows)
	j.rows = kinds[k].pack(binary.AppendUvarint(j.rows, uint64(k)), r)
	j.held += len(j.rows) - before
	j.added++
	if len(j.rows) >= journalBlock {
		j.push(step{})
	}
	return nil
}

// push hands the rows so far and a step to the goroutine that writes. j.mu is held.
func (j *journal) push(s step) {
	s.rows, s.added, j.rows = j.rows, j.added, nil
	j.steps = append(j.steps, s)
	select {
	case j.wake <- struct{}{}:
	default:
	}
}

// cut ends the segment: what is added from now on is in the next. It gives the number of the one that ended.
func (j *journal) cut() int {
	if j == nil {
		return 0
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	j.push(step{cut: true})
	j.segment++
	return j.segment - 1
}

// release removes the segments up to a number, whose rows stand in files that the manifest lists.
func (j *journal) release(segment int) {
	if j == nil {
		return
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	j.push(step{release: segment})
}

// err is what ended the journal.
func (j *journal) err() error {
	if j == nil {
		return nil
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.failed
}

// close ends the writing, after all that was pushed is done.
func (j *journal) close() {
	if j == nil {
		return
	}
	j.mu.Lock()
	j.closed = true
	j.push(step{})
	j.mu.Unlock()
	<-j.done
}

func (j *journal) run() {
	defer close(j.done)
	tick := time.NewTicker(j.every)
	defer tick.Stop()
	for {
		sync := false
		select {
		case <-j.wake:
		case <-tick.C:
			sync = true
		}
		steps, closed := j.take(sync)
		for _, s := range steps {
			if err := j.do(s); err != nil {
				j.fail(err)
			}
		}
		if sync || closed {
			if err := j.sync(); err != nil {
				j.fail(err)
			}
		}
		if closed {
			if j.out != nil {
				_ = j.out.Close()
			}
			return
		}
	}
}

// take takes what is to be done; with ALL the rows too that fill no block.
func (j *journal) take(all bool) (steps []step, closed bool) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if all && len(j.rows) > 0 {
		j.push(step{})
	}
	steps, j.steps = j.steps, nil
	return steps, j.closed
}

// do carries out a step. Of a journal that has failed the rows are dropped: they are in memory, too.
func (j *journal) do(s step) error {
	defer j.taken(s)
	if j.err() != nil {
		return nil
	}
	err := j.write(s.rows)
	if err == nil {
		j.wrote = s.added
	}
	if err == nil && s.cut {
		err = j.end()
	}
	if err == nil && s.release > 0 {
		err = j.remove(s.release)
	}
	return err
}

// taken makes room for further rows.
func (j *journal) taken(s step) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.held -= len(s.rows)
	j.room.Broadcast()
}

// write appends a block of rows to the open segment.
func (j *journal) write(rows []byte) error {
	if len(rows) == 0 {
		return nil
	}
	if j.out == nil {
		if err := j.open(); err != nil {
			return err
		}
	}
	return j.block(rows)
}

// open begins a segment.
func (j *journal) open() (err error) {
	if j.out, err = j.create(filepath.Join(j.dir, journalName(j.opened+1))); err != nil {
		j.out = nil
		return err
	}
	j.opened++
	if err := j.block(journalHeader()); err != nil {
		return err
	}
	return syncFolder(j.dir)
}

func (j *journal) block(payload []byte) error {
	packed, err := j.codec.Encode(make([]byte, 0, len(payload)/4), payload)
	if err != nil {
		return err
	}
	b := binary.LittleEndian.AppendUint32(make([]byte, 0, blockHead+len(packed)), uint32(len(packed)))
	b = binary.LittleEndian.AppendUint32(b, crc32.Checksum(packed, castagnoli))
	j.dirty = true
	_, err = j.out.Write(append(b, packed...))
	return err
}

func (j *journal) sync() error {
	if j.out == nil || !j.dirty {
		return nil
	}
	j.dirty = false
	err := j.out.Sync()
	if err == nil {
		j.mu.Lock()
		j.synced = j.wrote
		j.mu.Unlock()
	}
	return err
}

// end ends the open segment, if anything was added to it.
func (j *journal) end() error {
	j.cuts++
	if j.out == nil {
		return nil
	}
	j.ended = append(j.ended, ended{j.cuts, filepath.Join(j.dir, journalName(j.opened))})
	err := errors.Join(j.sync(), j.out.Close())
	j.out = nil
	return err
}

// remove removes the segments up to a number.
func (j *journal) remove(segment int) error {
	for len(j.ended) > 0 && j.ended[0].segment <= segment {
		if err := os.Remove(j.ended[0].path); err != nil {
			return err
		}
		j.ended = j.ended[1:]
	}
	return nil
}

// removeJournals removes all segments from a folder.
func removeJournals(dir string) error {
	names, err := journals(dir)
	for _, name := range names {
		if gone := os.Remove(name); !errors.Is(gone, fs.ErrNotExist) { // two Repairs may be at it
			err = errors.Join(err, gone)
		}
	}
	return errors.Join(err, syncFolder(dir))
}

// fail ends the journal, and gives back its room on a full disk: what it held is in memory and will be in files, if
// there is room for them.
func (j *journal) fail(err error) {
	j.mu.Lock()
	if j.failed == nil {
		j.failed = fmt.Errorf("writing the trace %s: its journal: %w", j.dir, err)
	}
	j.room.Broadcast()
	j.mu.Unlock()
	if j.out != nil {
		_ = j.out.Close()
		j.out = nil
	}
	_ = removeJournals(j.dir)
}
