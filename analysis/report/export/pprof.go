package export

import (
	"context"
	"errors"
	"io"

	"github.com/google/pprof/profile"

	"github.com/opreplay/opreplay/analysis/report"
	"github.com/opreplay/opreplay/traces"
)

// ErrNoSamples says that a trace has no stack samples.
var ErrNoSamples = errors.New("the trace holds no stack samples: oprec run and oprec capture --pid take them, where the kernel lets them")

// Pprof writes a trace's stack samples as a profile in pprof's form (github.com/google/pprof, profile.proto,
// compressed). Its values are sampling periods: the sum of the column weight. Labels tell the reconcile that a
// sample was taken in: controller, key (namespace/name), process. Kernel frames lie on the program's own. It
// returns that sum. Control characters are replaced (report.Flat), since pprof prints what it reads as it is.
func Pprof(ctx context.Context, t *traces.Trace, w io.Writer) (periods int64, err error) {
	b := newBuilder()
	if err := b.read(ctx, t); err != nil {
		return 0, err
	}
	for s, err := range traces.Rows[traces.Sample](ctx, t, traces.Range{}) {
		if err != nil {
			return 0, err
		}
		b.add(s)
		periods += s.Weight
	}
	if len(b.p.Sample) == 0 {
		return 0, ErrNoSamples
	}
	if err := b.p.CheckValid(); err != nil {
		return 0, err
	}
	return periods, b.p.Write(w)
}

// builder gathers equal samples: same stacks, same reconciler and key.
type builder struct {
	p          *profile.Profile
	stacks     map[int64][]traces.Frame
	reconciles map[int64]*traces.Reconcile
	functions  map[[2]string]*profile.Function // by name and file
	locations  map[traces.Frame]*profile.Location
	samples    map[sampleKey]*profile.Sample
}

type sampleKey struct {
	user, kernel             int64
	process, controller, key string
}

func newBuilder() *builder {
	return &builder{
		p:          &profile.Profile{SampleType: []*profile.ValueType{{Type: "samples", Unit: "count"}}, DefaultSampleType: "samples"},
		stacks:     map[int64][]traces.Frame{},
		reconciles: map[int64]*traces.Reconcile{},
		functions:  map[[2]string]*profile.Function{},
		locations:  map[traces.Frame]*profile.Location{},
		samples:    map[sampleKey]*profile.Sample{},
	}
}

func (b *builder) read(ctx context.Context, t *traces.Trace) error {
	for s, err := range traces.Rows[traces.Stack](ctx, t, traces.Range{}) {
		if err != nil {
			return err
		}
		b.stacks[s.StackID] = s.Frames
	}
	for r, err := range traces.Rows[traces.Reconcile](ctx, t, traces.Range{}) {
		if err != nil {
			return err
		}
		b.reconciles[r.Seq] = r
	}
	return nil
}

func (b *builder) add(s *traces.Sample) {
	if b.p.TimeNanos == 0 {
		b.p.TimeNanos = s.TS
	}
	b.p.DurationNanos = max(b.p.DurationNanos, s.TS-b.p.TimeNanos)
	k := sampleKey{user: s.StackID, kernel: s.KernelStackID}
	if r := b.reconciles[s.ReconcileID]; r != nil {
		k.process, k.controller, k.key = r.Process, r.Controller, r.Namespace+"/"+r.Name
	}
	at := b.samples[k]
	if at == nil {
		at = &profile.Sample{Value: []int64{0}, Label: labels(k)}
		for _, f := range append(append([]traces.Frame(nil), b.stacks[s.KernelStackID]...), b.stacks[s.StackID]...) {
			at.Location = append(at.Location, b.location(f))
		}
		b.samples[k] = at
		b.p.Sample = append(b.p.Sample, at)
	}
	at.Value[0] += s.Weight
}

func labels(k sampleKey) map[string][]string {
	all := map[string][]string{}
	for name, value := range map[string]string{"process": k.process, "controller": k.controller, "key": k.key} {
		if value != "" {
			all[name] = []string{report.Flat(value)}
		}
	}
	return all
}

func (b *builder) location(f traces.Frame) *profile.Location {
	l := b.locations[f]
	if l == nil {
		l = &profile.Location{ID: uint64(len(b.p.Location)) + 1, Line: []profile.Line{{Function: b.function(f), Line: int64(f.Line)}}}
		b.locations[f] = l
		b.p.Location = append(b.p.Location, l)
	}
	return l
}

func (b *builder) function(f traces.Frame) *profile.Function {
	key := [2]string{f.Function, f.File}
	fn := b.functions[key]
	if fn == nil {
		fn = &profile.Function{ID: uint64(len(b.p.Function)) + 1, Name: report.Flat(f.Function), SystemName: report.Flat(f.Function), Filename: report.Flat(f.File)}
		b.functions[key] = fn
		b.p.Function = append(b.p.Function, fn)
	}
	return fn
}
