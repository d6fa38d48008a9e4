// Package html makes a page of a trace that a person opens from disk, looks around in, prints and sends to a
// colleague.
//
//	result, err := analysis.Analyze(ctx, trace, analysis.Options{})
//	…
//	err = html.Write(ctx, file, html.Options{}, html.Run{Trace: trace, Result: result})
//
// The page is one file without any address of elsewhere in it. What matters stands in it as plain HTML, made here:
// the findings in words, the numbers, the tables. The charts, drawn by Apache ECharts (in assets/, with its licence),
// add what is better looked at: what happened to whom over time, how long calls and reconciles took, where the
// processor's time went. Without JavaScript the words are still there.
//
// One trace gives one page, byte for byte: nothing in it says when or where it was made.
//
// # What a trace may do to a page
//
// Nothing. A trace is somebody else's text: names, labels and log lines may hold markup. All of it reaches the page
// through html/template or as JSON that holds no "<", the page's script writes it as text only, and a content
// security policy names the two scripts of the page by their hash: no other runs.
//
// # What is left out, and said
//
// A page holds about [MaxEvents] events at most, and about [MaxLanes] lanes of a trace. What findings name is always
// there, beyond that if need be, and so are their lanes; of the rest every so-and-so-many-th event of a lane is, the first
// one always, and the page says which and how many it leaves out.
//
// To make one takes memory for four times that many events while the trace is read, for a name of each lane, and in
// bytes, some more while they grow: 16 for each call, 40 for each reconcile, 24 for each kernel event, about 100 for each
// stack that was sampled in a reconcile; where there is a reference, 16 for each change of an object, in both runs.
package html
