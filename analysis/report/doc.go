// Package report prints what an analysis found.
//
//	result, err := analysis.Analyze(ctx, trace, analysis.Options{})
//	report.Text(os.Stdout, result, report.Options{Color: report.Terminal(os.Stdout)})
//
// [Text] is for reading by eye: the findings, worst first, those with one cause together, each with what
// happens, why, how sure it is, and where to look. [JSON] is for programs: its form is analysis.Result with
// the name of its schema, documented in docs/findings/json.md; fields may be added under one schema number,
// never renamed or given another meaning.
//
// [Markdown] is for issues, [SARIF] for code scanning services, [JUnit] for CI systems, [GitHub] for the log of a GitHub
// workflow. In all of them a trace's texts stay texts. The page to look around in is package html's.
package report
