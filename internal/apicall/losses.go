package apicall

import (
	"sort"
	"sync"
	"time"

	"github.com/opreplay/opreplay/traces"
)

// losses counts what could not be recorded, by source and reason, so that a million of one kind are
// one line of the manifest.
type losses struct {
	mu sync.Mutex
	m  map[lossKey]*traces.Loss
}

type lossKey struct{ source, reason string }

// maxLossKinds bounds the map: reasons hold kinds and media types that a client chooses.
const maxLossKinds = 1000

func (l *losses) add(source, reason string, n int64, at time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.m == nil {
		l.m = map[lossKey]*traces.Loss{}
	}
	k := lossKey{source, reason}
	if l.m[k] == nil && len(l.m) >= maxLossKinds {
		k = lossKey{"requests", "further bodies that could not be decoded"}
	}
	e := l.m[k]
	if e == nil {
		e = &traces.Loss{Source: k.source, From: at.UTC(), Reason: k.reason}
		l.m[k] = e
	}
	e.To = at.UTC()
	e.Count += n
}

func (l *losses) list() []traces.Loss {
	l.mu.Lock()
	defer l.mu.Unlock()
	out := make([]traces.Loss, 0, len(l.m))
	for _, e := range l.m {
		out = append(out, *e)
	}
	sort.Slice(out, func(i, j int) bool {
		a, b := &out[i], &out[j]
		if a.Source != b.Source {
			return a.Source < b.Source
		}
		return a.Reason < b.Reason
	})
	return out
}
