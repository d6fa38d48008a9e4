package traces

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/parquet-go/parquet-go/compress/zstd"
)

// segments are the files of a trace that is being written. Its methods that write rows are called by
// one goroutine, the Writer's encoder; the rest is guarded by mu.
type segments struct {
	dir   string
	o     WriterOptions
	codec *zstd.Codec // of this trace alone, its buffers go with it

	open  []*fileWriter // by place in kinds
	count []int         // files begun, by place in kinds
	// waiting are finished files that the manifest does not list yet.
	waiting []finished
	// watchDone is how many watch rows stand in listed files.
	watchDone int64

	failure atomic.Pointer[error] // the first one; it stays
	// published is told, after a rotation that went well, up to which segment of the journal all is listed.
	published func(segment int)

	mu       sync.Mutex // held while the manifest is written
	manifest Manifest

	missingMu sync.Mutex
	missing   []Loss // by place in kinds; only times and count are set
}

type finished struct {
	file  File
	needs int64
}

func newSegments(dir string, m Manifest, o WriterOptions) *segments {
	s := &segments{
		dir:      dir,
		o:        o,
		codec:    newCodec(),
		manifest: m,
		open:     make([]*fileWriter, len(kinds)),
		count:    make([]int, len(kinds)),
		missing:  make([]Loss, len(kinds)),
	}
	for _, f := range m.Files { // whose names are taken
		if k := kindOf(f.Table); k >= 0 {
			s.count[k] = max(s.count[k], numberOf(f.Name))
		}
	}
	return s
}

// numberOf is the number in a file's name, TABLE-NNNN.parquet; 0 for none.
func numberOf(name string) int {
	digits := strings.TrimSuffix(name[strings.LastIndexByte(name, '-')+1:], ".parquet")
	n, err := strconv.Atoi(digits)
	if err != nil {
		return 0
	}
	return n
}

// do carries out a job of the queue.
func (s *segments) do(j job) {
	for i, p := range j.parts {
		if err := s.writeGroup(p); err != nil {
			s.fail(p.kind, err)
		}
		j.parts[i].rows = nil
	}
	if j.rotate && s.failed() == nil {
		for k := range s.open {
			if err := s.finish(k); err != nil {
				s.fail(k, err)
				break
			}
		}
		if s.failed() == nil {
			if err := s.publish(); err != nil {
				s.fail(-1, err)
			} else if s.published != nil {
				s.published(j.cut)
			}
		}
	}
	if j.done != nil {
		j.done <- s.failed()
	}
}

// writeGroup sorts rows and appends them to their table's file, which it opens and finishes as need be.
func (s *segments) writeGroup(p part) (err error) {
	if s.failed() != nil {
		s.lost(p.kind, p.rows...)
		return nil
	}
	k := kinds[p.kind]
	if s.open[p.kind] == nil {
		name := fmt.Sprintf("%s-%04d.parquet", k.table(), s.count[p.kind]+1)
		if s.open[p.kind], err = newFileWriter(s.dir, name, k, s.codec, s.o.create); err != nil {
			s.lost(p.kind, p.rows...)
			return err
		}
		s.count[p.kind]++
	}
	w := s.open[p.kind]
	w.needs = max(w.needs, p.needs)
	k.sort(p.rows)
	if err := guard(func() error { return w.group(p.rows) }); err != nil {
		return err
	}
	if w.file.Bytes < s.o.RotateBytes && w.groups < maxRowGroups {
		return nil
	}
	if err := s.finish(p.kind); err != nil {
		return err
	}
	return s.publish()
}

// finish ends the open file of a table; the manifest is not told yet.
func (s *segments) finish(k int) error {
	w := s.open[k]
	if w == nil {
		return nil
	}
	var f File
	err := guard(func() (err error) { f, err = w.finish(); return err })
	if err != nil {
		return err
	}
	s.open[k] = nil
	s.waiting = append(s.waiting, finished{file: f, needs: w.needs})
	return nil
}

// publish lists finished files in the manifest, requests only after the watch rows that their answers
// refer to: at every moment the manifest speaks of a whole.
func (s *segments) publish() error {
	if err := syncFolder(s.dir); err != nil {
		return err
	}
	var list []File
	keep := s.waiting[:0]
	for _, f := range s.waiting { // watch files first, for they are what others wait for
		if f.file.Table == TableWatch {
			s.watchDone += f.file.Rows
			list = append(list, f.file)
		} else {
			keep = append(keep, f)
		}
	}
	s.waiting = keep
	keep = s.waiting[:0]
	for _, f := range s.waiting {
		switch {
		case f.needs <= s.watchDone:
			list = append(list, f.file)
		case s.failed() != nil: // the watch rows will never come; the calls themselves are worth keeping
			list = append(list, f.file)
			s.lose(Loss{
				Source: lossOfBodies, From: nanos(f.file.FirstTS), To: nanos(f.file.LastTS), Count: -1,
				Reason: "answers that refer to lost watch rows",
			})
		default:
			keep = append(keep, f)
		}
	}
	s.waiting = keep
	return s.write(func(m *Manifest) {
		m.Files = append(m.Files, list...)
		slices.SortFunc(m.Files, func(a, b File) int {
			if a.Table != b.Table {
				return kindOf(a.Table) - kindOf(b.Table)
			}
			if len(a.Name) != len(b.Name) { // after 9999 files a number has five digits
				return len(a.Name) - len(b.Name)
			}
			return strings.Compare(a.Name, b.Name)
		})
	})
}

// fail notes the first error, gives up the file it came from and saves what can be saved of the others.
// k is the place of its table in kinds, -1 when it was the manifest's.
func (s *segments) fail(k int, err error) {
	err = fmt.Errorf("writing the trace %s: %w", s.dir, err)
	s.failure.CompareAndSwap(nil, &err)
	if k >= 0 {
		s.giveUp(k) // first, for it gives room on a full disk
	}
	for k := range s.open {
		if err := s.finish(k); err != nil {
			s.giveUp(k)
		}
	}
	_ = s.publish() // the first error is the one that counts
}

func (s *segments) giveUp(k int) {
	w := s.open[k]
	if w == nil {
		return
	}
	s.open[k] = nil
	_ = w.abort() // there is an error already, and nothing more to do about this file
	if f := w.file; f.Rows > 0 {
		s.miss(k, f.Rows, f.FirstTS, f.LastTS)
	}
}

// lost counts rows that will not reach the disk.
func (s *segments) lost(k int, rows ...Record) {
	for _, r := range rows {
		s.miss(k, 1, r.Header().TS, r.Header().TS)
	}
}

func (s *segments) miss(k int, rows, from, to int64) {
	s.missingMu.Lock()
	defer s.missingMu.Unlock()
	l := &s.missing[k]
	first, last := nanos(from), nanos(to)
	if l.Count == 0 || first.Before(l.From) {
		l.From = first
	}
	if l.Count == 0 || last.After(l.To) {
		l.To = last
	}
	l.Count += rows
}

// failed is the first error.
func (s *segments) failed() error {
	if err := s.failure.Load(); err != nil {
		return *err
	}
	return nil
}

// maxLosses bounds the manifest: a flapping connection must not make it grow for ever.
const maxLosses = 1000

func (s *segments) lose(l Loss) {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := s.manifest.Losses
	if len(all) < maxLosses {
		s.manifest.Losses = append(all, l)
		return
	}
	// Too many: add it to the last of the same source, else to the very last.
	i := len(all) - 1
	for j := i; j >= 0; j-- {
		if all[j].Source == l.Source {
			i = j
			break
		}
	}
	last := &all[i]
	if l.To.After(last.To) {
		last.To = l.To
	}
	if last.Count >= 0 && l.Count >= 0 {
		last.Count += l.Count
	} else {
		last.Count = -1
	}
	if !strings.HasSuffix(last.Reason, moreLosses) {
		last.Reason += moreLosses
	}
}

const moreLosses = "; and later ones, added up here"

// update changes the manifest at a caller's wish.
func (s *segments) update(change func(*Manifest)) error {
	return s.write(func(m *Manifest) {
		if change == nil {
			return
		}
		format, files, complete := m.Format, slices.Clone(m.Files), m.Complete
		change(m)
		m.Format, m.Files, m.Complete = format, files, complete
	})
}

func (s *segments) write(change func(*Manifest)) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	change(&s.manifest)
	return writeManifest(s.dir, &s.manifest, s.o.create)
}

// complete ends the trace, after the encoder did.
func (s *segments) complete() error {
	failed := s.failed()
	err := s.write(func(m *Manifest) {
		m.Complete = failed == nil
		if failed == nil {
			return
		}
		s.missingMu.Lock()
		defer s.missingMu.Unlock()
		for k, l := range s.missing {
			if l.Count > 0 {
				l.Source, l.Reason = string(kinds[k].table()), failed.Error()
				m.Losses = append(m.Losses, l)
			}
		}
	})
	switch {
	case failed != nil:
		return failed
	case err != nil:
		s.fail(-1, err)
		return s.failed()
	}
	return nil
}

// guard turns a panic of the Parquet library into an error.
func guard(f func() error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("parquet: %v", p)
		}
	}()
	return f()
}

func syncFolder(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// lossOfBodies is the source of a loss that says that answers refer to watch rows that were lost.
const lossOfBodies = "requests.response_body"

func nanos(ts int64) time.Time { return time.Unix(0, ts).UTC() }
