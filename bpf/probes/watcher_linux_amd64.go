package probes

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"

	"github.com/opreplay/opreplay/bpf"
	"github.com/opreplay/opreplay/bpf/internal/ring"
	"github.com/opreplay/opreplay/bpf/symbols"
)

const ringBytes = 16 << 20

// Watcher watches those of the processes followed that run one binary.
type Watcher struct {
	objects operatorObjects
	links   []link.Link // held: one that is collected as garbage detaches its probes
	ring    *ring.Reader
	sites   []site
	bodies  bodies
}

// Attach puts probes into the binary at PATH, whose tables are B. All processes that run this very file pass
// them; those of PROCESSES are watched. Queries of URLs and goroutines' numbers are known where the Go release is
// one whose structures we know.
func Attach(processes *bpf.Processes, b *symbols.Binary, path string) (*Watcher, error) {
	w, err := attach(processes, b, path, true)
	if errors.Is(err, ebpf.ErrNotSupported) { // many at once take Linux 6.6
		w, err = attach(processes, b, path, false)
	}
	return w, err
}

// attach puts them in TOGETHER, or one by one.
func attach(processes *bpf.Processes, b *symbols.Binary, path string, together bool) (_ *Watcher, err error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }()
	w := &Watcher{}
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
	if err := w.load(processes, together); err != nil {
		return nil, err
	}
	exe, err := link.OpenExecutable(path)
	if err != nil {
		return nil, err
	}
	if together {
		err = w.attachTogether(exe)
	} else {
		err = w.attachEach(exe)
	}
	if err != nil {
		return nil, fmt.Errorf("attaching %d probes to %s: %w", len(w.sites), path, err)
	}
	return w, nil
}

// load gives the program and its table of sites to the kernel.
func (w *Watcher) load(processes *bpf.Processes, together bool) error {
	spec, err := loadOperator()
	if err != nil {
		return err
	}
	if !together {
		spec.Programs[operatorProgAtSite].AttachType = ebpf.AttachNone
	}
	spec.Maps[operatorMapRing].MaxEntries = ringBytes
	if err := spec.LoadAndAssign(&w.objects, &ebpf.CollectionOptions{
		MapReplacements: map[string]*ebpf.Map{operatorMapTargets: processes.Targets()},
	}); err != nil {
		return fmt.Errorf("the kernel does not take the operator's probes: %w", err)
	}
	for i, s := range w.sites {
		if err := w.objects.Sites.Put(uint32(i), s.forKernel()); err != nil {
			return err
		}
	}
	w.ring, err = ring.Open(w.objects.Ring)
	return err
}

func (w *Watcher) attachTogether(exe *link.Executable) error {
	o := &link.UprobeMultiOptions{}
	for i, s := range w.sites {
		o.Addresses = append(o.Addresses, s.off)
		o.Cookies = append(o.Cookies, uint64(i))
	}
	l, err := exe.UprobeMulti(nil, w.objects.AtSite, o)
	if err == nil {
		w.links = append(w.links, l)
	}
	return err
}

// attachEach is for kernels before 6.6. It takes longer, and CAP_SYS_ADMIN.
func (w *Watcher) attachEach(exe *link.Executable) error {
	for i, s := range w.sites {
		l, err := exe.Uprobe(s.function, w.objects.AtSite, &link.UprobeOptions{Address: s.off, Cookie: uint64(i)})
		if errors.Is(err, os.ErrPermission) {
			return fmt.Errorf("before Linux 6.6 that needs CAP_SYS_ADMIN: %w", err)
		} else if err != nil {
			return err
		}
		w.links = append(w.links, l)
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

// Next waits for the next event. It ends with CTX's error.
func (w *Watcher) Next(ctx context.Context) (*Event, error) {
	for {
		record, err := w.ring.Next(ctx)
		if err != nil {
			return nil, err
		}
		if e, err := w.take(record); e != nil || err != nil {
			return e, err
		}
	}
}

// Seen is the time on CLOCK_MONOTONIC up to which Next has returned all that there was.
func (w *Watcher) Seen() time.Duration { return w.ring.Seen() }

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
// were lost for want of room.
func (w *Watcher) Counted() (seen, lost, lostBodies uint64, err error) {
	for i, n := range map[uint32]*uint64{ring.Taken: &seen, ring.Lost: &lost, ring.LostBodies: &lostBodies} {
		if *n, err = ring.Count(w.objects.Counters, i); err != nil {
			return 0, 0, 0, err
		}
	}
	// One by one, probes do not come by while another program runs on their processor; the kernel counts that.
	if stats, err := w.objects.AtSite.Stats(); err == nil {
		seen, lost = seen+stats.RecursionMisses, lost+stats.RecursionMisses
	}
	return seen, lost, lostBodies, nil
}

// Close takes the probes out of the binary again.
func (w *Watcher) Close() error {
	var errs []error
	for _, l := range w.links {
		errs = append(errs, l.Close())
	}
	if w.ring != nil {
		errs = append(errs, w.ring.Close())
	}
	return errors.Join(append(errs, w.objects.Close())...)
}
