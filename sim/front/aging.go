package front

import (
	"fmt"
	"time"

	"github.com/opreplay/opreplay/sim"
)

// What a real API server does by its clock.
const (
	// bookmarkEvery is the watch cache's (k8s.io/apiserver/pkg/storage/cacher, bookmarkFrequency); a watch also gets
	// one so long before its end (nextBookmarkTime), and they go out when a timer of its own looks, which it does
	// after this time at the latest (wait.Jitter(time.Second, 0.25)).
	bookmarkEvery  = time.Minute
	bookmarkBefore = 2 * time.Second
	bookmarkLate   = 1250 * time.Millisecond
	// compactEvery is --etcd-compaction-interval's default; each time, what is compacted is up to where the cluster
	// stood at the time before.
	compactEvery = 5 * time.Minute
)

// bookmarkLater has a watch that asks for bookmarks get its next one.
func (d *Door) bookmarkLater(e *exchange) {
	if !d.o.Aging || !e.stream.Bookmarks() {
		return
	}
	wait := min(bookmarkEvery, time.Duration(e.expires.At()-d.o.World.Nanos())-bookmarkBefore)
	if wait < 0 {
		return
	}
	wait += time.Duration(d.rhythm.Int64N(int64(bookmarkLate)))
	e.bookmark = d.after(wait, sim.Item{Kind: "bookmark", Subject: e.String(), Apply: func() error {
		e.stream.Bookmark()
		d.schedule(e, d.o.Latency)
		d.bookmarkLater(e)
		return nil
	}})
}

// compactLater has the store forget what is older than five to ten minutes. THEN is the newest version now. What a plan
// has remembered for a view of the past is kept.
func (d *Door) compactLater(then uint64) {
	if !d.o.Aging || d.o.Store == nil {
		return
	}
	d.after(compactEvery, sim.Item{Kind: "compaction", Subject: fmt.Sprintf("history before version %d", then), Apply: func() error {
		rev := then
		for _, remembered := range d.versions {
			rev = min(rev, remembered)
		}
		d.o.Store.Age(rev)
		d.Committed() // a watch that had fallen behind so far ends
		d.compactLater(d.o.Store.ResourceVersion())
		return nil
	}})
}
