package recorder

import (
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/opreplay/opreplay/bpf/events"
	"github.com/opreplay/opreplay/internal/cli"
	"github.com/opreplay/opreplay/traces"
)

// KernelEvents say which things that befall processes in the kernel are told of; what each costs says package
// bpf/events.
type KernelEvents = events.Options

// kernelEventFlags are the words by which a user names them.
var kernelEventFlags = map[string]func(*KernelEvents){
	"refused":    func(k *KernelEvents) { k.Refused = true },
	"forks":      func(k *KernelEvents) { k.Forks = true },
	"enospc":     func(k *KernelEvents) { k.NoSpace = true },
	"read-loops": func(k *KernelEvents) { k.ReadLoops = true },
}

// CheapKernelEvents are those that cost nothing that could be measured.
var CheapKernelEvents = []string{"refused", "forks"}

// SetKernelEvents adds to K what the words name: refused, forks, enospc, read-loops; all, none. It refuses a K whose
// other fields say nothing sensible.
func SetKernelEvents(k *KernelEvents, words []string) error {
	for _, word := range words {
		set := kernelEventFlags[word]
		switch {
		case word == "none" && len(words) == 1:
		case word == "all":
			for _, each := range kernelEventFlags {
				each(k)
			}
		case set == nil:
			known := slices.Sorted(maps.Keys(kernelEventFlags))
			return cli.Usagef("--kernel-events %s: want some of %s, or all, or none alone", word, strings.Join(known, ", "))
		default:
			set(k)
		}
	}
	switch {
	case k.Reads < 1:
		return cli.Usagef("--read-loop-rate %d: want reads a second from 1 on", k.Reads)
	case k.Hold < time.Second || k.Hold%time.Second != 0:
		return cli.Usagef("--read-loop-hold %s: want whole seconds, such as 5s", k.Hold)
	}
	return nil
}

// watchKernel has what befalls the processes told of. Where the kernel does not let us, the rest is recorded.
func (p *profiler) watchKernel(o *Options) {
	if !o.KernelEvents.Any() {
		return
	}
	if p.events, p.eventless = events.Watch(p.processes, o.KernelEvents); p.eventless != nil {
		p.events = nil
		o.note("recording without the kernel's events: %v", p.eventless)
	}
}

// restOfKernel takes what is left of the kernel's events when nobody reads them any more.
func (p *profiler) restOfKernel(add func(*events.Event)) {
	if p.events == nil {
		return
	}
	for _, e := range p.events.Rest() {
		add(e)
	}
}

func (p *profiler) lossesOfKernel(add func(source string, n int64, reason string)) {
	const source = string(traces.TableKernelEvents)
	if p.eventless != nil {
		add(source, -1, "not watched for: "+p.eventless.Error())
	}
	if p.events == nil {
		return
	}
	if lost, err := p.events.Lost(); err == nil {
		add(source, int64(lost), "events that there was no room for")
	}
	if ended := p.eventsEnded.Load(); ended != nil {
		add(source, -1, "reading ended: "+(*ended).Error())
	}
}

// befell writes the row of a kernel's event.
func (j *joiner) befell(e *events.Event) {
	row := &traces.KernelEvent{
		Head: traces.Head{TS: j.ts(e.Time)}, Kind: e.Kind.String(), PID: int32(e.PID), TID: int32(e.TID),
		Port: int32(e.Port), FD: int32(e.FD), Errno: int32(e.Kind.Errno()), Count: e.Count,
		StackID: j.stacks.user(e.Time, j.wall, e.PID, e.Stack, e.Top),
	}
	if e.Address.IsValid() {
		row.Address = e.Address.String()
	}
	j.emit(row)
}
