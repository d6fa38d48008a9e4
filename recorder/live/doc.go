// Package live tells of a recording while it is under way, as metrics for Prometheus: how often an operator
// reconciles and for how long, what it writes and is refused, how the API server answers, what the kernel shows of
// it, and what the recording misses.
//
//	m := live.New(live.Options{Process: nameOf, Lost: lost, Loops: loops})
//	s, err := m.Serve("127.0.0.1:9464")
//	…
//	m.Row(row)   // each row of the trace
//	…
//	err = s.Close()
//
// deploy/ has alert rules and a dashboard over them, docs/metrics.md what each means.
//
// # How many series there can be
//
// Labels are of what a cluster chooses: names of controllers, resources, addresses. Each label takes so many values
// (maxValues), and what comes beyond is counted under "other", so that sums stay right. Of keys, which there are as
// many of as objects, only the busiest have a series (maxKeys).
package live
