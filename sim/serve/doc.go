// Package serve puts the API server of a world on the network, for kubectl and for programs that are no
// part of the world: they live by the wall clock and come when they like.
//
//	server, err := apiserver.New(ctx, apiserver.Options{Live: true, Webhooks: serve.Webhooks()})
//	…
//	access, err := serve.NewAccess("127.0.0.1")
//	…
//	front, err := serve.Start(server, listener, serve.Options{Access: access})
//	…
//	defer front.Stop()
//	kubeconfig, err := access.Kubeconfig(front.URL())   // a secret
//
// Connections are TLS, HTTP/1.1 or HTTP/2, by the very code that kube-apiserver serves with. Who asks is
// told by a bearer token or a client certificate: [NewAccess] makes one administrator with a token that
// nobody else knows, [FilesAccess] takes what kube-apiserver's flags name. A client that claims to be
// somebody by headers is not believed.
//
// # Looking at the past
//
// With ReadOnly in apiserver.Options nothing can be changed: a write is answered by 405 and a Status that
// says so. Reviews (kubectl auth can-i) and dry runs (kubectl diff, --dry-run=server) change nothing and
// are answered. Calls that an API server passes on to a kubelet or a pod (logs, exec, proxy) are refused
// unless [Options.Nodes] is set: a recorded node's address may be anybody's by now.
//
// # A live world
//
// What a world leaves to its caller has to be done by somebody when time is the wall clock: Start sends
// bookmarks to watches once a minute, lets Events expire, and forgets history that is older than five to
// ten minutes, as etcd does for a real API server. [Webhooks] calls admission and
// conversion webhooks over the network.
//
// # What it is not
//
// No priority and fairness, no limit of requests in flight, no audit log, no deadline of a minute for a
// request. One API server a process, as sim/apiserver has it. Nothing is kept when the process ends.
package serve
