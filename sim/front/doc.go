// Package front is the door between the processes of a world and its API server: each request, each
// answer and each event of a watch is a step on the world's agenda, with a virtual time of its own.
//
//	door := front.New(front.Options{World: w, Handler: server.Handler(), Tap: tap, Faults: machine})
//	w.AddSource(door)
//	…
//	door.Accept(front.Client{Process: "manager", User: "system:serviceaccount:ns:manager"}, stream, wire.Options{})
//	…
//	player := actor.NewPlayer(actor.Options{Write: door.Outsider("kubectl"), …}) // scripted outsiders
//
// # What a call goes through
//
//	bytes on a connection ─► request (arrives, one latency later runs) ─► answer (one latency later)
//	a commit ─► deliver (one latency later, per watch that selects it)
//
// All steps of one connection share a lane: an answer never overtakes another, an event never the one
// before it, and a watch's first event never its header. Steps of different connections that are due at
// the same time go in the order that the seed chooses. With a client that speaks nothing but HTTP/2 each
// stream is such a lane: calls that it makes at once may overtake each other.
//
// Where a plan or a client breaks off a call or a watch, its connection ends, and in HTTP/2 its stream alone.
// A client that gives up a call does not undo it: what has been sent is executed. A watch it ends so.
//
// The plan's faults (package fault) are asked when a call arrives, when it has run, and when an event is
// about to be delivered; what they say becomes the time of a step or the form of an answer. Watches that a
// plan cuts, versions that are gone and views of the past are the door's to carry out, with the store; what
// happens to processes and to the clock it asks of its owner (Options.Act).
//
// A call that admission webhooks are asked about runs in parts: the call to the webhook is a step, its answer
// another, and the handler stands still between them while other steps go on. An outsider's call is whole all
// the same: the world is stepped from within its step until the webhooks have answered.
//
// Time limits that a client sets on a watch, and the half to one hour that an API server gives one that
// set none, run on the world's clock.
package front
