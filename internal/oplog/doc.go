// Package oplog reads what operators write to stdout and stderr.
//
// Nobody agrees on a form for log lines, so Parse tries those that Kubernetes operators really use and
// gives up gracefully: a line that it does not understand is its own message.
//
//	level, msg, fields := oplog.Parse(`2026-11-30T11:01:48Z	INFO	setup	starting manager	{"version": "v1"}`)
//	// "info", "starting manager", `{"logger":"setup","version":"v1"}`
//
// Known are zap's console and JSON encoders (controller-runtime), klog's text, structured text and JSON,
// log/slog's text and JSON handlers and its default, logfmt (go-kit, logrus), zerolog's and logrus' JSON,
// the standard library's log, and the first lines of a Go panic. Times are dropped: the reader of a log has
// a clock of its own, and in a simulated run only that one is right.
//
// Lines cuts a stream into lines of bounded length, for whoever copies a process's output into a trace:
//
//	err := oplog.Lines(stderr, func(line string) { … oplog.Parse(line) … })
package oplog
