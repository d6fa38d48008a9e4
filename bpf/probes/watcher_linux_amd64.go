package probes

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync/atomic"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"
	"github.com/cilium/ebpf/ringbuf"

	"github.com/opreplay/opreplay/bpf"
	"github.com/opreplay/opreplay/bpf/symbols"
)

const (
	look      = 100 * time.Millisecond // how often the ring buffer is looked at: a probe does not wake us
	ringBytes = 16 << 20
)

// Watcher watches the processes that it follows, of those that run one binary.
type Watcher struct {
	objects operatorObjects
	link    link.Link // held: one that is collected as garbage detaches its probes
	ring    *ringbuf.Reader
	record  ringbuf.Record
	sites   []site
	bodies  bodies
	version string       // of the Go release that built the binary
	empty   atomic.Int64 // when Next last found nothing left, on CLOCK_MONOTONIC
}

// Attach puts probes into the binary at PATH, whose tables are B. All processes that run this very file pass
// them; those that are followed are watched.
func Attach(b *symbols.Binary, path string) (_ *Watcher, err error) {
	if err := bpf.Check(false); err != nil {
		return nil, err
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }()
	w := &Watcher{version: b.GoVersion}
	if w.sites, err = sites(b, f); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	if len(w.sites) == 0 {
		return nil, fmt.Errorf("%s: %w", path, ErrNoSites)
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, w.Close())
		}
	}()
	if err := w.load(); err != nil {
		return nil, err
	}
	return w, w.attach(path)
}

// load gives the program and its table of sites to the kernel.
func (w *Watcher) load() error {
	spec, err := loadOperator()
	if err != nil {
		return err
	}
	spec.Maps[operatorMapCalls].MaxEntries = ringBytes
	if err := spec.LoadAndAssign(&w.objects, nil); err != nil {
		return fmt.Errorf("the kernel does not take the operator's probes: %w", err)
	}
	for i, s := range w.sites {
		if err := w.objects.Sites.Put(uint32(i), s.forKernel()); err != nil {
			return err
		}
	}
	w.ring, err = ringbuf.NewReader(w.objects.Calls)
	return err
}

func (w *Watcher) attach(path string) error {
	exe, err := link.OpenExecutable(path)
	if err != nil {
		return err
	}
	o := &link.UprobeMultiOptions{}
	for i, s := range w.sites {
		o.Addresses = append(o.Addresses, s.off)
		o.Cookies = append(o.Cookies, uint64(i))
	}
	if w.link, err = exe.UprobeMulti(nil, w.objects.AtSite, o); errors.Is(err, ebpf.ErrNotSupported) {
		return fmt.Errorf("this kernel can't attach many probes at once, which needs Linux 6.6: %w", err)
	} else if err != nil {
		return fmt.Errorf("attaching %d probes to %s: %w", len(w.sites), path, err)
	}
	return nil
}

// forKernel is what the program is to read at the site.
func (s site) forKernel() *operatorSite {
	k := &operatorSite{Pointer: s.pointer, Strings: uint8(s.strings), Arg: s.arg}
	for i, t := range s.text {
		k.TextPtr[i], k.TextLen[i] = t.ptr, t.len
	}
	flag := func(b bool) (n uint8) {
		if b {
			n = 1
		}
		return n
	}
	k.Named, k.Stack = flag(s.named), flag(s.stack)
	k.Call, k.Status = flag(s.kind == Request), flag(s.kind == Response)
	return k
}

// Sites names the functions that are watched.
func (w *Watcher) Sites() []string {
	var names []string
	for i, s := range w.sites {
		if i == 0 || w.sites[i-1].function != s.function {
			names = append(names, s.function)
		}
	}
	return names
}

// Follow watches the process PID from now on. Goroutine numbers and queries of URLs are known if KNOWN comes
// back true, else the Go release that built it is not one that we know the structures of.
func (w *Watcher) Follow(pid int) (known bool, err error) {
	l, known := symbols.LayoutOf(w.version)
	t := operatorTarget{G_id: l.GID, UrlQuery: l.URLRawQuery}
	if known {
		t.Known = 1
	}
	return known, w.objects.Watched.Put(uint32(pid), &t)
}

// Unfollow ends what Follow began.
func (w *Watcher) Unfollow(pid int) error {
	err := w.objects.Watched.Delete(uint32(pid))
	if errors.Is(err, ebpf.ErrKeyNotExist) {
		return nil
	}
	return err
}

// Next waits for the next event. It ends with CTX's error.
func (w *Watcher) Next(ctx context.Context) (*Event, error) {
	for {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		before := bpf.Monotonic()
		w.ring.SetDeadline(time.Now().Add(look))
		if err := w.ring.ReadInto(&w.record); errors.Is(err, os.ErrDeadlineExceeded) {
			w.empty.Store(int64(before))
			continue
		} else if err != nil {
			return nil, err
		}
		if e, err := w.take(w.record.RawSample); e != nil || err != nil {
			return e, err
		}
	}
}

// Seen is the time on CLOCK_MONOTONIC up to which Next has returned all that there was.
func (w *Watcher) Seen() time.Duration { return time.Duration(w.empty.Load()) }

// take reads a record. There is no event where it is a part of a body.
func (w *Watcher) take(r rawEvent) (*Event, error) {
	if len(r) < 8 {
		return nil, fmt.Errorf("a record of %d bytes", len(r))
	}
	if r.u32(0) == recordBody {
		return nil, w.bodies.add(r)
	}
	n := int(r.u32(4))
	if n >= len(w.sites) {
		return nil, fmt.Errorf("an event at site %d of %d", n, len(w.sites))
	}
	e, err := r.event(w.sites[n])
	if err == nil && e.Kind == Request {
		e.Body = w.bodies.of(e)
	}
	return e, err
}

// Counted is how many events there were since the start, and how many of them, and how many parts of bodies,
// were lost since the ring buffer was full.
func (w *Watcher) Counted() (seen, lost, lostBodies uint64, err error) {
	for key, sum := range map[uint32]*uint64{0: &seen, 1: &lost, 2: &lostBodies} {
		var each []uint64
		if err := w.objects.Seen.Lookup(key, &each); err != nil {
			return 0, 0, 0, err
		}
		for _, n := range each {
			*sum += n
		}
	}
	return seen, lost, lostBodies, nil
}

// Close takes the probes out of the binary again.
func (w *Watcher) Close() error {
	var errs []error
	if w.link != nil {
		errs = append(errs, w.link.Close())
	}
	if w.ring != nil {
		errs = append(errs, w.ring.Close())
	}
	return errors.Join(append(errs, w.objects.Close())...)
}
