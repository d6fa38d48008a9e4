//go:build !(linux && amd64)

package bpf

import (
	"context"
	"errors"
	"runtime"
	"time"
)

// ErrUnsupported says that this machine is none that programs can be watched on.
var errUnsupported = errors.New("eBPF recording needs Linux on amd64; this is " + runtime.GOOS + " on " + runtime.GOARCH)

// Sampler samples nothing here.
type Sampler struct{}

// NewSampler says that it can't.
func NewSampler(SamplerOptions) (*Sampler, error) { return nil, errUnsupported }

func (*Sampler) Follow(int) (bool, error)               { return false, errUnsupported }
func (*Sampler) Unfollow(int) error                     { return errUnsupported }
func (*Sampler) Next(context.Context) (*Sample, error)  { return nil, errUnsupported }
func (*Sampler) Counted() (taken, lost uint64, _ error) { return 0, 0, errUnsupported }
func (*Sampler) Seen() time.Duration                    { return 0 }
func (*Sampler) Close() error                           { return nil }
