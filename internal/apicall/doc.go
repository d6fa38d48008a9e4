// Package apicall turns API calls that pass by into trace records.
//
// A Tap wraps a handler, whatever answers behind it (a reverse proxy to a live API server, an embedded
// server), and appends to a trace what its clients asked, were answered and were told by their watches:
//
//	tap := apicall.New(writer, apicall.Options{Redact: apicall.Secrets(key)})
//	http.Serve(listener, tap.Handler(proxy))
//	…
//	losses := tap.Losses() // what could not be recorded, with counts, for the manifest
//
// # What becomes which row
//
//   - Every call is one traces.Request, appended when it ended. A watch is one too: its row comes when
//     the stream ends, its Start and StartSeq say when it began, its Code is that of the stream's
//     answer. A client that goes away before an answer leaves a row with Code 0.
//   - Every frame of a watch is a traces.WatchEvent, bookmarks and errors included. The initial events
//     of a streaming list (sendInitialEvents) stay ADDED, as they were delivered; the bookmark annotated
//     k8s.io/initial-events-end ends them.
//   - Every item of a list is a traces.WatchEvent of type SYNC. The list's Request keeps only the
//     envelope (kind, apiVersion, metadata). Typed lists leave kind and apiVersion out of their items;
//     they are put back in front, which gives the bytes that a get or a watch of the item would give.
//     Items of a Table or a PartialObjectMetadataList are rows too: their object says by its own kind
//     that it is not the whole object.
//   - exec, attach, port-forward and proxy calls are verb "connect", without bodies. Logs and paths that
//     are no resource (discovery, OpenAPI, health) are recorded without bodies.
//
// # Order
//
// A row is appended before the last bytes that tell its client of it are passed on: a watch row before
// its frame's end, a call's rows before its answer's end. With Request.StartSeq this keeps the trace
// honest about what a client could have known: all that it was told before it called has a Seq of at
// most StartSeq.
//
// # Forms
//
// Bodies are decoded to JSON: JSON and its patch forms, YAML, protobuf of the built-in kinds (through
// client-go's scheme, CRDs included), CBOR. Watches are split as they pass, JSON or protobuf frames.
// Accept-Encoding is taken off the request, so that answers come plain; a gzip answer that comes all
// the same is decoded. Bodies and frames over Options.Limit, watches over a websocket, CBOR watches and
// whatever can't be decoded pass unharmed and are counted in Losses.
package apicall
