//go:build !(linux && amd64)

package events

import (
	"context"
	"errors"
	"runtime"
	"time"

	"github.com/opreplay/opreplay/bpf"
)

var errUnsupported = errors.New("watching the kernel's events needs Linux on amd64; this is " + runtime.GOOS + " on " + runtime.GOARCH)

// Watcher tells nothing here.
type Watcher struct{}

// Watch says that it can't.
func Watch(*bpf.Processes, Options) (*Watcher, error) { return nil, errUnsupported }

func (*Watcher) Next(context.Context) (*Event, error) { return nil, errUnsupported }
func (*Watcher) Rest() []*Event                       { return nil }
func (*Watcher) Seen() time.Duration                  { return 0 }
func (*Watcher) Loops() []Loop                        { return nil }
func (*Watcher) Lost() (uint64, error)                { return 0, errUnsupported }
func (*Watcher) Close() error                         { return nil }
