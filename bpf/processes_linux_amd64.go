package bpf

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"
	"github.com/prometheus/procfs"

	"github.com/opreplay/opreplay/bpf/internal/ring"
	"github.com/opreplay/opreplay/bpf/symbols"
)

// Processes is the set of processes that are followed: by the sampler and the watchers that are made with it. It may
// be used by several goroutines, Next by one.
type Processes struct {
	objects processesObjects
	links   []link.Link // held: one that is collected as garbage detaches its program
	ring    *ring.Reader

	mu    sync.Mutex
	found []Life // of children that were there before, which no program told of
}

const livesBytes = 1 << 18

// NewProcesses follows nobody yet.
func NewProcesses() (_ *Processes, err error) {
	if err := Check(false); err != nil {
		return nil, err
	}
	p := &Processes{}
	defer func() {
		if err != nil {
			err = errors.Join(err, p.Close())
		}
	}()
	spec, err := loadProcesses()
	if err != nil {
		return nil, err
	}
	spec.Maps[processesMapRing].MaxEntries = livesBytes
	if err := spec.LoadAndAssign(&p.objects, nil); err != nil {
		return nil, fmt.Errorf("the kernel does not take the programs that follow children: %w", err)
	}
	if p.ring, err = ring.Open(p.objects.Ring); err != nil {
		return nil, err
	}
	for _, program := range []*ebpf.Program{p.objects.OnExit, p.objects.OnExec, p.objects.OnFork} {
		l, err := link.AttachTracing(link.TracingOptions{Program: program})
		if err != nil {
			return nil, fmt.Errorf("following children: %w", err)
		}
		p.links = append(p.links, l)
	}
	return p, nil
}

// Follow has the process PID followed, with its children, those that it has and those that it will have. Its goroutines are known if KNOWN comes back
// true, else the Go release that built it is not one whose structures we know, or it is no Go program. A process that
// has ended is not followed, with an error that is os.ErrProcessDone.
func (p *Processes) Follow(pid int) (known bool, err error) {
	if known, err = p.put(pid, ebpf.UpdateAny); err != nil {
		return false, err
	}
	for _, child := range descendants(pid) {
		if _, err := p.put(child, ebpf.UpdateAny); errors.Is(err, os.ErrProcessDone) {
			continue
		} else if err != nil {
			return known, err
		}
		p.mu.Lock()
		p.found = append(p.found, Life{Time: Monotonic(), What: Executed, PID: child})
		p.mu.Unlock()
	}
	return known, nil
}

// descendants are the children of a process, theirs, and so on.
func descendants(pid int) (all []int) {
	processes, err := procfs.AllProcs()
	if err != nil {
		return nil // no /proc, and so no process to follow either
	}
	children := map[int][]int{}
	for _, child := range processes {
		if stat, err := child.Stat(); err == nil {
			children[stat.PPID] = append(children[stat.PPID], child.PID)
		}
	}
	for next := children[pid]; len(next) > 0; next = next[1:] {
		all = append(all, next[0])
		next = append(next, children[next[0]]...)
	}
	return all
}

func (p *Processes) put(pid int, flags ebpf.MapUpdateFlags) (known bool, err error) {
	l, known := symbols.LayoutOf(symbols.GoVersion(pid))
	target := processesTarget{G_m: l.GM, G_id: l.GID, M_curg: l.MCurrent, UrlQuery: l.URLRawQuery}
	if known {
		target.Known = 1
	}
	if err := p.objects.Targets.Update(uint32(pid), &target, flags); err != nil {
		return false, err
	}
	if !alive(pid) { // its end came before, and will not take it out again
		return false, errors.Join(fmt.Errorf("process %d: %w", pid, os.ErrProcessDone), p.Unfollow(pid))
	}
	return known, nil
}

// alive says whether a process has not ended: one that only its parent has not heard of yet has.
func alive(pid int) bool {
	process, err := procfs.NewProc(pid)
	if err != nil {
		return false
	}
	stat, err := process.Stat()
	return err == nil && stat.State != "Z" && stat.State != "X"
}

// Unfollow ends what Follow began. The end of a process does so too.
func (p *Processes) Unfollow(pid int) error {
	err := p.objects.Targets.Delete(uint32(pid))
	if errors.Is(err, ebpf.ErrKeyNotExist) {
		return nil
	}
	return err
}

// Next waits for the next thing in the lives of the processes that are followed. It ends with CTX's error. One that
// executes another program has its goroutines known only once it was returned. Children that were there before are
// told of as having executed their program when Follow found them.
func (p *Processes) Next(ctx context.Context) (Life, error) {
	for {
		if err := ctx.Err(); err != nil {
			return Life{}, err
		}
		if l, ok := p.wasThere(); ok {
			return l, nil
		}
		record, err := p.ring.Look()
		if err != nil {
			return Life{}, err
		}
		if record == nil {
			continue
		}
		l, err := parseLife(record)
		if err == nil && l.What == Executed {
			_, err = p.put(l.PID, ebpf.UpdateExist) // unless its end, or Unfollow, was faster
			if errors.Is(err, ebpf.ErrKeyNotExist) || errors.Is(err, os.ErrProcessDone) {
				err = nil
			}
		}
		return l, err
	}
}

// wasThere takes a child that Follow found.
func (p *Processes) wasThere() (l Life, ok bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.found) == 0 {
		return Life{}, false
	}
	l, p.found = p.found[0], p.found[1:]
	return l, true
}

// lifeBytes is the length of struct life in kernel/processes.bpf.c.
const lifeBytes = 24

func parseLife(b []byte) (Life, error) {
	if len(b) < lifeBytes {
		return Life{}, fmt.Errorf("a process's life of %d bytes", len(b))
	}
	le := binary.LittleEndian
	return Life{
		Time: time.Duration(le.Uint64(b)), What: Stage(le.Uint32(b[8:])), PID: int(le.Uint32(b[12:])), Parent: int(le.Uint32(b[16:])),
	}, nil
}

// Lost is how many things in processes' lives were not told, or children not followed, for want of room.
func (p *Processes) Lost() (uint64, error) { return ring.Count(p.objects.Counters, ring.Lost) }

// Targets is the map that programs in the kernel look processes up in.
func (p *Processes) Targets() *ebpf.Map { return p.objects.Targets }

// Close ends the following.
func (p *Processes) Close() error {
	var errs []error
	for _, l := range p.links {
		errs = append(errs, l.Close())
	}
	if p.ring != nil {
		errs = append(errs, p.ring.Close())
	}
	return errors.Join(append(errs, p.objects.Close())...)
}
