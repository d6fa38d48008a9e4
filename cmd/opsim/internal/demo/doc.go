// Package demo is what `opsim demo` does: it replays the bundled traces against both twins of the zoo's
// operators, analyses what came of it, and says whether each faulty twin has its fault and each mended one
// none.
//
//	report, err := demo.Play(ctx, demo.Options{Opsim: "bin/opsim", Zoo: "bin/zoo", Out: dir})
//	report.Text(os.Stdout)
//
// Each run is a process of its own, `opsim replay`, as a user would start it: there is one API server a
// process, and several run at a time.
package demo
