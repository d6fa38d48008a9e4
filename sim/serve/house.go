package serve

import "time"

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
	bookmarks, expiry, compaction := time.NewTicker(bookmarkEvery), time.NewTicker(expireEvery), time.NewTicker(compactEvery)
	defer bookmarks.Stop()
	defer expiry.Stop()
	defer compaction.Stop()
	f.housework(bookmarks.C, expiry.C, compaction.C)
}

// housework does each thing when its time has come.
func (f *Front) housework(bookmarks, expiry, compaction <-chan time.Time) {
	world := f.server.Store()
	last := world.ResourceVersion()
	for {
		select {
		case <-f.ending.Done():
			return
		case <-bookmarks:
			world.Bookmark()
		case <-expiry:
			world.Expire()
		case <-compaction:
			world.Compact(last)
			last = world.ResourceVersion()
		}
	}
}
