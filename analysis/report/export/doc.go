// Package export turns what a trace holds into forms that other tools read.
//
//	t, err := traces.Open("t.optrace")
//	n, err := export.Pprof(ctx, t, w) // go tool pprof -http=: FILE
package export
