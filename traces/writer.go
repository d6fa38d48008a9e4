package traces

import (
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"sync"
	"sync/atomic"
	"time"
)

// Appender takes records in the order in which they became true. *Writer is one; so is whatever a test puts in its place.
type Appender interface {
	// Append adds one record and assigns its Seq when that is 0. It is safe for concurrent use. After it
	// returned nil the record belongs to the Appender and must not be changed.
	Append(Record) error
	// Seq is the highest Seq given so far.
	Seq() int64
}

// WriterOptions bound a Writer. The zero value is the recommended setting for a recording. A simulated
// run sets RotateAge to -1: then the Parquet files depend on nothing but the records.
type WriterOptions struct {
	// RowGroupRows is after how many rows a table's buffer becomes a row group: 0 means 5,000. More
	// compress better, and cost memory in whoever writes and reads.
	RowGroupRows int
	// RowGroupBytes is the same in bytes of text held: 0 means 32 MiB.
	RowGroupBytes int
	// RotateBytes is at which size a file is finished and the next begun: 0 means 64 MiB, negative never.
	RotateBytes int64
	// RotateAge is the longest time that a row waits until it stands in a finished file, and so what a
	// SIGKILL can cost: 0 means a minute, negative until Close.
	RotateAge time.Duration
	// Journal is how often what stands in no finished file is made durable in a journal, which Repair reads after a
	// SIGKILL: that then costs no more than this. 0 means that there is no journal.
	Journal time.Duration
	// SeenObjects is how many objects of the watch table are remembered in order to store an answer
	// that repeats one as a reference to it: 0 means 262,144, of about 60 bytes each.
	SeenObjects int

	create func(path string) (output, error) // a test's disk
}

func (o WriterOptions) withDefaults() WriterOptions {
	def := func(v *int, d int) {
		if *v == 0 {
			*v = d
		}
	}
	def(&o.RowGroupRows, 5000)
	def(&o.RowGroupBytes, 32<<20)
	def(&o.SeenObjects, 1<<18)
	switch {
	case o.RotateBytes == 0:
		o.RotateBytes = 64 << 20
	case o.RotateBytes < 0:
		o.RotateBytes = math.MaxInt64
	}
	if o.RotateAge == 0 {
		o.RotateAge = time.Minute
	}
	if o.create == nil {
		o.create = createFile
	}
	return o
}

// Writer writes a trace folder.
//
// Append puts a row into its table's buffer. A full buffer is handed through a queue of one to a
// single background encoder, which sorts it, appends it as a row group to the table's open file, and
// finishes files that are large or old enough (segments.go). When the encoder falls behind, Append
// waits: memory is bounded and nothing is dropped.
//
// A Parquet file without its footer is lost whole, so what stands in buffers and open files does not
// survive a SIGKILL. The journal closes this gap: Append writes the record to it while it holds w.mu (so
// that the journal has the order of Append), and once the manifest lists all that was appended before a
// rotation, the journal up to there is removed. Repair replays the rest through a Writer of its own.
type Writer struct {
	o       WriterOptions
	seq     atomic.Int64
	seg     *segments
	journal *journal // nil for none
	lock    *folderLock

	mu      sync.Mutex // the order of Append, and all below
	buffers []buffer   // by place in kinds
	seen    *seenBodies
	watched int64 // watch rows appended
	closed  bool

	jobs     chan job
	stop     chan struct{} // ends the timer
	encoding sync.WaitGroup
	ticking  sync.WaitGroup
}

// buffer is what a table has in memory and not yet handed to the encoder.
type buffer struct {
	rows  []Record
	bytes int
	// unmatched are calls with answers that no watch row has had so far.
	unmatched []unmatched
	// needs is how many watch rows must be finished before a file with these rows is.
	needs int64
	// open says that rows were appended since the last rotation.
	open bool
}

type unmatched struct {
	call *Request
	key  bodyKey
}

// job is work for the encoder, done in the order of the queue.
type job struct {
	parts  []part
	rotate bool       // finish all files afterwards
	cut    int        // the segment of the journal that ends before
	done   chan error // told when all of it is on disk; may be nil
}

// part is one row group in the making.
type part struct {
	kind  int
	rows  []Record
	needs int64
}

// Create makes the trace folder DIR, which must not exist or be empty, and a Writer for it. The
// manifest is on disk, and incomplete, when Create returns. A folder that cannot be used is a
// *FormatError.
func Create(dir string, m Manifest, o WriterOptions) (*Writer, error) {
	if err := makeFolder(dir); err != nil {
		return nil, err
	}
	m.Files = []File{}
	lock, err := lockFolder(dir)
	if err != nil {
		return nil, err
	}
	return newWriter(dir, m, o, lock)
}

// newWriter is a Writer that adds to the files of the manifest M. It takes over the lock.
func newWriter(dir string, m Manifest, o WriterOptions, lock *folderLock) (*Writer, error) {
	o = o.withDefaults()
	m.Format, m.Complete = Format{Major: FormatMajor, Minor: FormatMinor}, false
	w := &Writer{
		lock:    lock,
		o:       o,
		seg:     newSegments(dir, m, o),
		buffers: make([]buffer, len(kinds)),
		seen:    newSeenBodies(o.SeenObjects),
		jobs:    make(chan job, 1),
		stop:    make(chan struct{}),
	}
	if err := w.seg.update(nil); err != nil {
		return nil, errors.Join(err, lock.release())
	}
	if o.Journal > 0 {
		w.journal = newJournal(dir, o.Journal, o.create)
		w.seg.published = w.journal.release
	}
	w.encoding.Go(func() {
		for j := range w.jobs {
			w.seg.do(j)
		}
	})
	if o.RotateAge > 0 {
		w.ticking.Go(w.tick)
	}
	return w, nil
}

func makeFolder(dir string) error {
	entries, err := os.ReadDir(dir)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return &FormatError{Path: dir, Detail: "cannot make the trace folder: " + cause(err), Hint: "choose a place that you may write to"}
		}
		return nil
	case err != nil:
		return &FormatError{Path: dir, Detail: "cannot be used as a trace folder: " + cause(err), Hint: "choose another name"}
	case len(entries) > 0:
		return &FormatError{Path: dir, Detail: "the folder is not empty", Hint: "choose a new name for the trace, or remove the folder first"}
	}
	return nil
}

// Append implements Appender. An error of the disk stays: every later Append and Close return it.
func (w *Writer) Append(r Record) error {
	k, err := check(r)
	if err != nil {
		return err
	}
	bytes := kinds[k].prepare(r)
	key, hasBody := hashBody(r)

	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed {
		return errors.New("traces: append to a closed writer")
	}
	w.number(r.Header())
	if err := w.seg.failed(); err != nil {
		w.seg.lost(k, r)
		return err
	}
	if err := w.journal.add(k, r); err != nil {
		w.seg.lost(k, r)
		return err
	}
	b := &w.buffers[k]
	switch {
	case k == watchKind:
		w.watched++
		if hasBody {
			w.seen.add(key, w.watched)
		}
	case k == requestsKind && hasBody:
		call := r.(*Request)
		body := len(call.ResponseBody)
		if w.refer(b, call, key) {
			bytes -= body
		} else {
			b.unmatched = append(b.unmatched, unmatched{call, key})
		}
	}
	b.rows = append(b.rows, r)
	b.bytes += bytes
	b.open = true
	if len(b.rows) >= w.o.RowGroupRows || b.bytes >= w.o.RowGroupBytes {
		w.jobs <- job{parts: []part{w.cut(k)}}
	}
	return nil
}

// number gives the row its place. w.mu is held.
func (w *Writer) number(h *Head) {
	last := w.seq.Load()
	if h.Seq == 0 {
		h.Seq = last + 1
	}
	w.seq.Store(max(last, h.Seq))
}

// hashBody sets the row's hash from its text, so that a hash on disk is always right.
func hashBody(r Record) (key bodyKey, ok bool) {
	switch r := r.(type) {
	case *WatchEvent:
		if r.Object == "" {
			r.ObjectHash = ""
			return key, false
		}
		key, r.ObjectHash = keyOf(r.UID, r.ResourceVersion, r.Object)
		return key, r.UID != ""
	case *Request:
		if r.ResponseBody == "" {
			return key, false // a hash alone is a reference that the caller vouches for
		}
		key, r.ResponseHash = keyOf(r.UID, r.ResourceVersion, r.ResponseBody)
		return key, r.UID != ""
	}
	return key, false
}

// refer drops an answer that the watch table holds. w.mu is held.
func (w *Writer) refer(b *buffer, r *Request, key bodyKey) bool {
	row, ok := w.seen.get(key)
	if ok {
		r.ResponseBody = ""
		b.needs = max(b.needs, row)
	}
	return ok
}

// cut takes a table's buffer. w.mu is held.
func (w *Writer) cut(k int) part {
	b := &w.buffers[k]
	for _, u := range b.unmatched { // the watch row of a call's result often comes after the call's end
		w.refer(b, u.call, u.key)
	}
	p := part{kind: k, rows: b.rows, needs: b.needs}
	*b = buffer{rows: make([]Record, 0, min(len(b.rows), w.o.RowGroupRows)), open: b.open}
	return p
}

// Rotate finishes all files: when it returns nil, a reader that opens the trace sees every row
// appended before. It is for who reads a trace that is still being written.
func (w *Writer) Rotate() error {
	done := make(chan error, 1)
	w.mu.Lock()
	if w.closed {
		w.mu.Unlock()
		return w.seg.failed()
	}
	w.rotate(done)
	w.mu.Unlock()
	return <-done
}

// rotate hands all buffers to the encoder and has it finish the files. w.mu is held.
func (w *Writer) rotate(done chan error) {
	j := job{rotate: true, cut: w.journal.cut(), done: done}
	for k := range w.buffers {
		if len(w.buffers[k].rows) > 0 {
			j.parts = append(j.parts, w.cut(k))
		}
		w.buffers[k].open = false
	}
	w.jobs <- j
}

// tick rotates every RotateAge, also when no more rows arrive.
func (w *Writer) tick() {
	t := time.NewTicker(w.o.RotateAge)
	defer t.Stop()
	for {
		select {
		case <-w.stop:
			return
		case <-t.C:
		}
		w.mu.Lock()
		open := false
		for _, b := range w.buffers {
			open = open || b.open
		}
		if open && !w.closed {
			w.rotate(nil)
		}
		w.mu.Unlock()
	}
}

// Seq implements Appender.
func (w *Writer) Seq() int64 { return w.seq.Load() }

// Lose notes a known loss in the manifest; it is on disk with the next rotation, Update or Close.
func (w *Writer) Lose(l Loss) { w.seg.lose(l) }

// Update changes the manifest under the Writer's lock; it is on disk when Update returns nil. The
// format, the files and whether the trace is complete are the Writer's own: changes to them are
// ignored. change must not call the Writer.
func (w *Writer) Update(change func(*Manifest)) error { return w.seg.update(change) }

// Close writes what is buffered, marks the manifest complete and ends the trace. It returns the first
// error that the Writer met, whatever was saved after it; then the manifest, where it could still be
// written, says what was lost and the trace is not complete. A second Close returns the same.
func (w *Writer) Close() error {
	w.mu.Lock()
	if w.closed {
		w.mu.Unlock()
		w.encoding.Wait()
		return w.seg.failed()
	}
	w.rotate(nil)
	w.closed = true
	close(w.stop)
	close(w.jobs)
	w.mu.Unlock()
	w.ticking.Wait()
	w.encoding.Wait()
	w.journal.close()
	if err := w.journal.err(); err != nil {
		w.seg.failure.CompareAndSwap(nil, &err) // what it held is in files by now
	}
	err := w.seg.complete()
	if err == nil && w.journal != nil {
		err = removeJournals(w.seg.dir) // complete without it, whatever a crash here leaves
	}
	return errors.Join(err, w.lock.release())
}

// cause is err without the path and operation that the message around it names already.
func cause(err error) string {
	var p *fs.PathError
	if errors.As(err, &p) {
		return p.Err.Error()
	}
	return fmt.Sprint(err)
}
