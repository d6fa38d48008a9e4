// Package livecluster runs a real Kubernetes control plane on this machine, for tests and for
// `make cluster`: etcd, kube-apiserver and, where asked for, kube-controller-manager. There are no
// nodes and no containers; pods stay Pending.
//
//	func TestOnRealAPIServer(t *testing.T) {
//		cluster := livecluster.Start(t, livecluster.Options{})
//		client := kubernetes.NewForConfigOrDie(cluster.Config())
//		…
//	}
//
// A cluster is ready in about four seconds and is stopped by the test's cleanup. Several can run side
// by side. When all tests of a package can live with one, [Shared] starts it once:
//
//	func TestMain(m *testing.M) {
//		code := m.Run()
//		livecluster.StopShared()
//		os.Exit(code)
//	}
//
// # Who is asking
//
// [Cluster.Config] is an administrator. [Cluster.ConfigFor] is any user in any groups, by a client
// certificate; permissions are RBAC's, so a user in no group may do next to nothing until it is bound
// to a role. None of the configurations has a client-side rate limit.
//
// # Controllers
//
// Without Options.Controllers nothing but the API server runs: no garbage collection, no ReplicaSets,
// and a deleted namespace stays in Terminating. [DefaultControllers] are those that make sense without
// nodes. The ServiceAccount admission plugin is off: pods get no token.
//
// # Audit
//
// Options.AuditLog and Options.AuditWebhook switch the API server's audit on at level RequestResponse,
// without the stage RequestReceived. The log is written before the client has its answer; the webhook
// gets audit.k8s.io/v1 EventLists some milliseconds later, and the rest when the cluster stops. Both
// hold the same events, but for one kind: the webhook does not hear of the end of a watch that Stop cut
// off. Deliveries of a watch are in neither: audit has only a watch's begin and end.
// Bodies are whole, those of Secrets too.
//
// # Where the binaries come from
//
// Each binary is taken from the folder KUBEBUILDER_ASSETS if it is there, else from PATH, else it is
// built from its Go module: the module controlplane, beside this file, names the versions in its go.mod
// and nothing else. What is built is kept in the user's cache folder, under
// opreplay/controlplane/VERSION-HASH, one folder for each content of go.mod and go.sum; old ones may be
// deleted at will. The first build compiles about 2,500 packages, which takes some ten minutes on two
// cores and more memory for linking than usual (2.5 GB). Later builds link only, for the packages come
// from Go's build cache, which they share with this project's own: both modules pin the same versions
// and both are built with CGO_ENABLED=0 and GOFLAGS=-trimpath. Package pins has the test for that;
// `go generate ./internal/livecluster` mends it and
// `go run ./internal/livecluster/cmd/pin v1.38.0` moves both to another Kubernetes.
//
// A test whose time would run out during the build fails saying so; `make test` therefore builds first
// (go run ./internal/livecluster/cmd/cluster --build-only).
//
// # What is left behind
//
// Nothing. All sockets are on the loopback interface, and etcd is reached by a Unix socket in the
// cluster's folder, which only its owner may enter. The servers belong to a process group with a guard,
// a shell that waits at the end of a pipe: when the process that called Up dies, in whatever way, the
// pipe closes and the guard kills the group. The folder of such a cluster is removed by the next Up of
// the same user: it knows by the folder's lock file that nobody owns it any more.
//
// The package needs Linux, macOS or FreeBSD; elsewhere it compiles, and Up says that it cannot run.
package livecluster

//go:generate go run ./cmd/pin
