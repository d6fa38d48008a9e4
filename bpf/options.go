package bpf

import "fmt"

// DefaultHz is how often a processor is looked at: odd, so as not to march in step with timers of the
// program's that tick at round intervals.
const DefaultHz = 99

// SamplerOptions say how to sample.
type SamplerOptions struct {
	Hz int // samples a second and processor, 1 to 10,000; 0 means DefaultHz

	ringBytes uint32 // the ring buffer's size: a power of two, a page or more
}

func (o *SamplerOptions) complete() error {
	if o.Hz == 0 {
		o.Hz = DefaultHz
	}
	if o.Hz < 0 || o.Hz > 10000 {
		return fmt.Errorf("%d samples a second: between 1 and 10,000 are possible", o.Hz)
	}
	if o.ringBytes == 0 {
		o.ringBytes = 4 << 20
	}
	return nil
}
