//go:build !(linux && amd64)

package bpf

import (
	"context"
	"errors"
	"runtime"
	"time"
)

var errUnsupported = errors.New("eBPF recording needs Linux on amd64; this is " + runtime.GOOS + " on " + runtime.GOARCH)

// Processes follows nobody here.
type Processes struct{}

// NewProcesses says that it can't.
func NewProcesses() (*Processes, error) { return nil, errUnsupported }

func (*Processes) Follow(int) (bool, error)           { return false, errUnsupported }
func (*Processes) Unfollow(int) error                 { return errUnsupported }
func (*Processes) Next(context.Context) (Life, error) { return Life{}, errUnsupported }
func (*Processes) Lost() (uint64, error)              { return 0, errUnsupported }
func (*Processes) Close() error                       { return nil }

// Sampler samples nothing here.
type Sampler struct{}

// NewSampler says that it can't.
func NewSampler(*Processes, SamplerOptions) (*Sampler, error) { return nil, errUnsupported }

func (*Sampler) Next(context.Context) (*Sample, error)  { return nil, errUnsupported }
func (*Sampler) Counted() (taken, lost uint64, _ error) { return 0, 0, errUnsupported }
func (*Sampler) Seen() time.Duration                    { return 0 }
func (*Sampler) Close() error                           { return nil }
