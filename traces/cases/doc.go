// Package cases has the bundled traces: recordings of small faulty operators (examples/operators) on a real API
// server. `make record` makes them anew. They are part of the binary, so that `opsim demo` works anywhere:
//
//	for _, c := range cases.All() {
//		trace, err := c.Extract(dir)
//		…
//	}
package cases
