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
// What it speaks: HTTP/1.1 with and without TLS, chunked answers for streams. It does not speak HTTP/2
// (its ALPN offers http/1.1, which Go's client takes), upgrades (exec, port-forward) or pipelining
// (the next request is read once the last is answered, as RFC 9112 §9.3.2 permits a server to).
package wire
