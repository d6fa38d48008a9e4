// Package store is the memory of the simulated cluster: a k8s.io/apiserver storage.Interface over one
// persistent tree, in the place where a real API server has etcd and its watch cache.
//
// What a cluster leaves to chance is an input here. The [Store] decides resourceVersions (one counter,
// as in etcd), uids and generated names (a function of the seed, the object's key and how often that key
// was created before: not of the order in which unrelated objects appear) and the times that the API
// server stamps (from [Options.Clock]). What the API server writes with the wall clock in spite of that
// is put right before it is encoded; what a client wrote is left alone.
//
//	world := store.New(store.Options{Seed: 7, Clock: clock})
//	config.RESTOptionsGetter = world.RESTOptions(store.RESTConfig{Config: configFor})
//	…
//	before := world.Snapshot()       // microseconds, whatever the size of the world
//	…
//	world.Restore(before)            // the same world again; external watches end
//
// # Watches
//
// A watch is a cursor into its resource's journal of changes, so a client that reads slowly costs no
// memory and loses nothing; one that falls behind a compaction gets 410 Gone, as it would from etcd.
// Before an event reaches an external client it passes the [Gate], which may hold it for as long as it
// likes, or end the stream. Events of one stream never overtake each other. A request is external when
// its context carries a [Client]; the API server's own informers carry none and are never gated.
//
// # Recorded objects
//
// [Store.Load] puts an object into the world as it was recorded: uid, resourceVersion, times and
// managedFields unchanged. [WithHint] lets one request have a recorded uid, resourceVersion, name and
// time for what it writes.
//
// # Guarantees
//
//   - A list is a state that existed; an exact list ([k8s.io/apimachinery/pkg/apis/meta/v1.ResourceVersionMatchExact])
//     gives that of any version since the last [Store.Compact] or [Store.Load].
//   - resourceVersions rise; a refused write takes none; an update that changes nothing takes none.
//   - The same calls in the same order with the same seed and clock store the same bytes.
//   - The upstream suite k8s.io/apiserver/pkg/storage/testing passes, every function of it; conformance_test.go
//     names the two that contradict a watch cache and run for events only.
//   - What clients can tell a watch cache from etcd by is as in a real API server: a list at resourceVersion 0
//     ignores its limit, and refusals are worded alike. Events have no watch cache, there as here.
//   - An object that cannot be read (its conversion webhook fails, say) is reported as
//     k8s.io/apiserver/pkg/storage/etcd3 reports it, and can be deleted with
//     ignoreStoreReadErrorWithClusterBreakingPotential.
//
// # What it is not
//
// Its watch cache never lags of itself: a list at resourceVersion 0 has the newest state, and a version that
// the world has not reached is refused at once, where a real API server waits three seconds for it. What lags
// does so by [Store.SetViews]. Lists do not turn into 429 while a resource holds an object that cannot be read;
// they name it. Periodic bookmarks are sent when [Store.Bookmark] or [Stream.Bookmark] is called, objects with a time to live go when
// [Store.Expire] is called, and history is kept until [Store.Compact] or [Store.Age] is called: the store has no
// timer of its own. There is no encryption at rest and no sharded list.
package store
