// Package fault is the plan of a run: what is altered in a simulated cluster's timing and answers.
//
// A plan is YAML, and every fault in it has a form that fits on one line, which is what findings, reports and
// the decisions table print:
//
//	seed: 7
//	faults:
//	- hold: {watch: rabbitmqclusters, client: operator, from: "MODIFIED rabbit #2", until: "CREATE statefulsets/rabbit-server #2"}
//	- latency: {request: "*", between: [5ms, 200ms]}
//	- answer: {request: "UPDATE */status", nth: 2, code: 409}
//
// Parse reads it, with the line in each error; Plan.String prints it, and what is printed parses to the same
// plan. A Machine says what a plan does to one run. It is a state machine without clock, goroutines or I/O: its
// caller tells it what is about to happen, and carries out the answer.
//
//	plan, err := fault.Parse("plan.yaml", text)
//	m := fault.NewMachine(plan, fault.Options{Operator: "manager"})
//	v := m.Arrive(fault.Call{Client: "manager", Verb: "create", Resource: "statefulsets", Name: "db"})
//	// wait v.Delay, then execute the call or answer it by v.Refusal, then:
//	fx := m.Done(v.Ticket)
//	d := m.Deliver(fault.Event{Client: "manager", Stream: "w1", Type: "MODIFIED", Resource: "statefulsets", Name: "db", ResourceVersion: 7})
//	// wait d.Delay; while d.Held, wait until an Effect is Released, and ask again
//
// What a plan wants done to processes, to watches and to the clock comes as the Actions of an Effect, and the
// moments that it waits for as its Deadlines, for which the caller calls Expire:
//
//	for _, d := range fx.Begun { after(d.After, func() { follow(m.Expire(d)) }) }
//	for _, a := range fx.Actions { … a.Do, a.Process … }
//
// Crash, Restart, Cut, Merge, Pause, Schema, Skip and Unserve need a caller to whom processes, watches and time belong (NeedsWorld).
//
// # Selectors
//
// A call is selected by "VERB TARGET", an event of a watch by "TYPE NAME":
//
//	"CREATE statefulsets/rabbit-server #2"   the second such call of the run
//	"UPDATE */status"                        any resource's status
//	"PATCH widgets.example.com/*/scale"      resource with its group, any name, a subresource
//	"DELETE pods/db-0 -n prod"               one namespace only
//	"*"                                      any call
//	"MODIFIED rabbit #2"                     the second MODIFIED of the object rabbit
//
// Verbs are GET, LIST, WATCH, CREATE, UPDATE, PATCH, DELETE, DELETECOLLECTION, or * for any; event types are
// ADDED, MODIFIED, DELETED, or *. Resources are named by their plural, with ".GROUP" where that is not enough.
//
// Occurrences ("#2") are counted from the start of the run: calls in the order in which they arrive,
// whatever comes of them; events by their resourceVersion, so that one event which three informers of a client
// receive is still one. Where a selector names a moment (from, until, to, at, before, after), none means the first; where it
// names calls to alter (request), none means each of them.
//
// # What a fault may do
//
// Only what a real cluster may do. Within one watch stream events keep their order; a call is
// either committed or not; nobody is told of a state that never was. The doc of each fault type says which
// behaviour of a real cluster it is, and Parse refuses what no real cluster shows, such as a committed write
// that is answered by 409.
package fault
