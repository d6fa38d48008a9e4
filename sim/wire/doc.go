// Package wire speaks HTTP with the processes of a world, synchronously: on byte streams, without a
// socket, a timer or a goroutine whose order could matter.
//
// A [Conn] takes the bytes that a process has written and yields the requests in them. It is a
// coroutine: [Conn.Next] runs it until a request is whole or the bytes are used up, and when Next has
// returned nothing of it runs. So the world knows exactly when all is quiet; there is no settle time.
//
//	c := wire.NewConn(stream, wire.Options{TLS: config})
//	for x := c.Next(); x != nil; x = c.Next() {
//		res := x.Run(ctx, handler)   // the handler, to its end or to a watch's first flush
//		x.Answer(res)                // at whatever virtual time the world chooses
//	}
//
// Running and answering are two steps, so that the world can let virtual time pass between the moment
// at which a write is committed and the moment at which its client learns of it, or lose the answer.
//
// A watch is an [Exchange] whose handler has not returned. [Exchange.Await] waits until the handler has
// handed over what one event made it write: exactly one flush an event, which is a rule of the API
// server's watch handler (k8s.io/apiserver/pkg/endpoints/handlers/watch.go flushes once per event).
//
// # What it speaks
//
// HTTP/1.1 with and without TLS, chunked answers for streams: one exchange at a time on a connection (the
// next request is read once the last is answered, as RFC 9112 §9.3.2 permits a server to).
//
// HTTP/2 (RFC 9113) with clients that insist on it: those that offer nothing else by ALPN, if Options.TLS
// has "h2" after "http/1.1", and those that begin with its preface in cleartext. Then several exchanges of
// one connection are under way at a time, each on its stream:
//
//   - Next must be called while they are, and goes on yielding requests; it also heeds the client's
//     settings, windows, pings and resets. Exchange.Gone tells of a reset.
//   - Answers may be given in any order. What the client's windows have no room for waits (Exchange.Pending).
//   - Exchange.Drop resets the stream. A handler that panics does too, and the connection goes on.
//   - When the client closes the connection, Closed becomes true once the last exchange has been answered
//     or dropped. An error of the client's ends it at once, with GOAWAY and Err.
//   - Bounds: 250 streams, 1 MiB of header, Options.MaxBody for a body and four times that for all that are
//     unfinished, 10,000 frames while the client reads nothing. Beyond them a stream is refused, answered
//     431 or 413, or reset, or the connection ends.
//
// It does not speak upgrades (exec, port-forward; h2c by Upgrade), pushes, CONNECT or priorities, and drops
// trailers. It never says GOAWAY of its own accord: a world's end is a closed connection. In HTTP/1.1 the
// header's size has no limit.
package wire
