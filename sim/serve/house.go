package serve

import (
	"time"
)

// How often a real API server and etcd do what the store leaves to its caller.
const (
	// bookmarkEvery is the watch cache's (k8s.io/apiserver/pkg/storage/cacher, bookmarkFrequency).
	bookmarkEvery = time.Minute
	// expireEvery is how late an Event may go; etcd's leases go about every half second.
	expireEvery = time.Second
	// compactEvery is --etcd-compaction-interval's default; each time, what was compacted up to is where
	// the world stood at the time before.
	compactEvery = 5 * time.Minute
)

// keepHouse does what time brings, until the front is stopped.
func (f *Front) keepHouse() {
	world := f.server.Store()
	bookmarks, expiry, compaction := time.NewTicker(bookmarkEvery), time.NewTicker(expireEvery), time.NewTicker(compactEvery)
	defer bookmarks.Stop()
	defer expiry.Stop()
	defer compaction.Stop()
	last := world.ResourceVersion()
	for {
		select {
		case <-f.ending.Done():
			return
		case <-bookmarks.C:
			world.Bookmark()
		case <-expiry.C:
			world.Expire()
		case <-compaction.C:
			world.Compact(last)
			last = world.ResourceVersion()
		}
	}
}
