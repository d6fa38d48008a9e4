// Package export turns what a trace holds into forms that other tools read: pprof, the Trace Event Format of Perfetto,
// OpenTelemetry, CSV.
//
//	t, err := traces.Open("t.optrace")
//	n, err := export.Pprof(ctx, t, w) // go tool pprof -http=: FILE
package export
