//go:build !(linux && amd64)

package probes

import (
	"context"
	"errors"
	"runtime"
	"time"

	"github.com/opreplay/opreplay/bpf"
	"github.com/opreplay/opreplay/bpf/symbols"
)

var errUnsupported = errors.New("watching an operator's calls needs Linux on amd64; this is " + runtime.GOOS + " on " + runtime.GOARCH)

// Watcher watches nothing here.
type Watcher struct{}

// Attach says that it can't.
func Attach(*bpf.Processes, *symbols.Binary, string) (*Watcher, error) { return nil, errUnsupported }

func (*Watcher) Sites() []string                      { return nil }
func (*Watcher) Next(context.Context) (*Event, error) { return nil, errUnsupported }
func (*Watcher) Seen() time.Duration                  { return 0 }
func (*Watcher) Close() error                         { return nil }

// Counted is all 0 here.
func (*Watcher) Counted() (seen, lost, lostBodies uint64, _ error) { return 0, 0, 0, errUnsupported }
