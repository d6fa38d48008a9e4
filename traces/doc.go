// Package traces is the trace format: what one run of a cluster looked like from one or more operators,
// as Parquet tables in a folder. Recorded and simulated runs have the same form.
//
// # A trace
//
// A trace is a folder, by custom NAME.optrace, with manifest.json and the files TABLE-0001.parquet,
// TABLE-0002.parquet, … of each table that has rows. Any Parquet reader reads them; docs/trace-format.md
// lists the columns and has examples in SQL and pandas. The tables and their rows:
//
//	watch          WatchEvent   an event as a watch delivered it, or an item of a list (type SYNC)
//	requests       Request      one API call
//	reconciles     Reconcile    one pass of a reconciler
//	samples        Sample       one stack sample
//	stacks         Stack        one distinct stack
//	kernel_events  KernelEvent  a refused connection, a fork, …
//	logs           Log          one line that a process wrote
//	metrics        Metric       one scraped sample
//	decisions      Decision     one step of a simulated world
//
// Every row has a Seq, from 1, which is the total order of the trace over all tables: what a row speaks
// of became true after all rows with a lower Seq. It has a time, TS, in nanoseconds since the Unix
// epoch, which may step back where the clock that gave it did.
//
// # Writing
//
//	w, err := traces.Create("t.optrace", traces.Manifest{
//		Created: time.Now().UTC(), Tool: "mytool v1", Source: "capture",
//	}, traces.WriterOptions{})
//	…
//	err = w.Append(&traces.Log{Head: traces.Head{TS: now.UnixNano()}, Process: "op", Message: "hello"})
//	…
//	err = w.Close()
//
// Append gives the Seq, and may be called from any number of goroutines. It waits when the disk does
// not keep up: memory is bounded (about 100 MB with the recommended options and objects of 4 kB) and
// nothing is dropped. An answer that is byte for byte an object of the watch table (same uid, same
// version, same hash) is kept once: [Trace.ResponseBody] finds it again.
//
// A recording that may be killed sets [WriterOptions].Journal: what stands in no finished file is then synced to a
// journal that often, and [Repair] makes files of it.
//
// Code that emits records takes an [Appender], so that a test can put a slice in the Writer's place and
// a simulated world needs no Parquet.
//
// # Reading
//
//	t, err := traces.Open("t.optrace")
//	…
//	for e, err := range traces.Rows[traces.WatchEvent](ctx, t, traces.Range{}) {
//		if err != nil {
//			return err
//		}
//		fmt.Println(e.Seq, e.Type, e.Resource, e.Namespace, e.Name)
//	}
//
// [Trace.Records] merges several tables in the order of Seq. A [Range] narrows both by Seq, by time and
// to some columns or to all but some; files, row groups and columns that are not wanted are not read. A detector that needs
// no objects reads about five times as many rows a second. Rows belong to the caller. They are made 16 at a time: copy a row
// that you keep for long, or it keeps the others with their texts.
//
// Who reads all of a long trace and keeps little of it reads with [Range].Reuse: nothing is copied out of the pages, rows
// and texts are valid only until [Reuse.Done], and reading costs a third less. Texts that few values repeat (a table's
// groups, resources, processes, verbs, …) are one string in all rows of a read, with Reuse or without.
//
// # What holds
//
//   - A file that the manifest lists was complete and on disk before the manifest said so, and the
//     manifest is replaced in one step. A crash at any moment, or a full disk, leaves a trace that opens
//     and whose rows are right.
//   - Nothing of a file is looked at before its size and SHA-256 are those of the manifest. A flipped
//     bit is an error that names the file, never a panic and never other data.
//   - What is known to be missing is in [Manifest].Losses. Complete is false until Close, or until Repair has ended
//     what a kill left, with a loss that says so.
//   - A listed request's answer can be found in listed watch rows, also while a trace is being written
//     (but for the loss "requests.response_body", which only a full disk makes).
//   - Same records in the same order, same options with RotateAge -1, same build: same bytes.
//   - A reader takes every minor version of its own major version: columns that an older file lacks are
//     zero, columns and tables that a newer one adds are passed over. It refuses a newer major version.
//   - Files have mode 0600 and new folders 0700: a trace may hold what the cluster holds.
//
// # What does not
//
//   - A SIGKILL loses what was not synced. With a journal that is what came in the last of its intervals, once Repair
//     has been called; until then, and without a journal, it is what stood in no finished file, at most that of RotateAge.
//   - Seq has no gaps when the Writer gave it and was not killed; a caller who gives it may leave gaps. That none was
//     given twice is only [Trace.Verify]'s to say.
//   - The manifest has no checksum of its own.
//   - Texts that are not UTF-8 have their bad bytes replaced by U+FFFD, for Parquet's strings are UTF-8.
//   - Object hashes are 64 bits: fit for telling versions of one object apart, not against who forges.
//   - Nothing here redacts: that is the recorder's part, before Append.
package traces
