// Package apiserver is the API server of a simulated cluster: the handlers, registries, validation,
// defaulting, server-side apply and CRD machinery of the real one (k8s.io/apiserver,
// k8s.io/apiextensions-apiserver and k8s.io/kubernetes), in this process, over a sim/store.
//
//	s, err := apiserver.New(ctx, apiserver.Options{Seed: 7, Clock: clock, Gate: gate})
//	…
//	defer s.Close()
//	err = s.Load(ctx, recorded)            // the world as it was when a recording began
//	go http.Serve(listener, s.Handler())   // operators, kubectl
//
//	alice := kubernetes.NewForConfigOrDie(s.Config(apiserver.User{Name: "alice"}))
//	_, err = alice.CoreV1().Pods("default").Create(store.WithHint(ctx, hint), pod, …)
//
// [Server.Handler] serves external requests over whatever listener its caller has; [Server.Config] and
// [Server.Outsider] are the same without a socket, for scripted users in this process, whose context
// can carry a store.Hint. Nothing of the server listens or dials.
//
// # Who asks
//
// Everybody is let in. The user of a request is the one of its context ([WithUser]), else that of the
// headers X-Remote-User and X-Remote-Group, else [Admin]: the front door decides, so serve Handler on
// loopback only. The field manager in managedFields is, as ever, the fieldManager parameter or the
// beginning of the User-Agent. A front door that knows more of its client, such as the process, says so
// with store.WithClient before it calls Handler.
//
// # Guarantees
//
//   - The same requests in the same order with the same seed and clock store the same bytes, in any
//     process: uids, generated names, resourceVersions, cluster IPs, node ports and times are the world's.
//   - A write of a CRD is answered when the kind is served with its newest spec and shown by discovery and
//     OpenAPI documents (or gone); see [Server.Settle]. Nothing of it runs behind the requests.
//   - Loaded objects keep uid, resourceVersion, times and managedFields; see [Server.Load].
//   - Snapshot and restore take microseconds, whatever was written since; see [Server.Restore].
//   - Tables (kubectl get) count ages by the world's clock.
//   - Answers are a real kube-apiserver's: package sim/internal/conformance asks both the same and compares.
//
// # What it is not
//
//   - One Server may be open in a process: the embedded code reads time and randomness through variables
//     of the process ([ErrSecondServer]). Opening one after another is fine.
//   - The world's clock must begin before the wall clock and stay behind it ([Options.Clock]).
//   - No controller manager, scheduler or kubelet: owners' dependents stay when owners go, namespaces stay
//     Terminating, pods on a node stay until they are deleted without grace, no Endpoints are written, and
//     no ServiceAccount "default" or kube-root-ca.crt appears in a new namespace.
//   - Admission is what a real API server has without flags, but for ServiceAccount,
//     StorageObjectInUseProtection ([Options.EnableAdmission]), PodGroupProtection, PodResizeValidator and
//     NodeDeclaredFeatureValidator; ResourceQuota does not count the devices of resource claims. The plugins see
//     policies, classes, limits and webhooks as they are; in a real one they hear of changes up to some seconds
//     late. Webhooks are called with [Options.Webhooks];
//     validating ones one after the other, in the order of their configurations. All are called by HTTP/1.1, as
//     a real API server calls all but those on its own host, and one at a time: also conversion webhooks,
//     which convert what a watch is to show on behalf of the request that wrote it.
//   - A deleted CRD whose custom resources wait for finalizers goes with the write that lets the last one
//     go; a real API server looks every five seconds, and says so in a condition every minute.
//   - Authorization allows everything unless [Options.RBAC] is set. Authentication is the front door's.
//   - A watch without timeoutSeconds ends after 30 to 60 minutes of the wall clock, as in a real cluster; package
//     front ends it by the world's.
//   - Lists at resourceVersion 0 give the newest state; a real server's watch cache may lag. Bookmarks come
//     when store.Store.Bookmark is called, events expire when store.Store.Expire is called.
//   - Answers are not compressed, whatever the client accepts.
//   - APIServices are objects without an effect, and none is made for the groups that are served. There is no
//     internal.apiserver.k8s.io and no componentstatuses. Versions that Kubernetes no longer serves are there
//     in a cluster that is old enough ([Options.Version]) as far as their types are: no PodSecurityPolicy, no
//     autoscaling/v2beta. What is validated is what 1.37 accepts: a CRD without a structural schema is refused
//     in apiextensions.k8s.io/v1beta1 too. There are no FlowSchemas for requests.
//   - Addresses of Services are the lowest that are free, of the first ServiceCIDR that is ready and has one. A
//     ServiceCIDR beside the API server's own is ready when somebody says so in its status, as there. Loaded Services
//     have the IPAddresses that were recorded; nobody makes those that are missing.
//   - A generated name that is taken already is refused instead of being drawn again; there are 14 million
//     for each base.
//   - The finalizers of a namespace keep their order when its deletion adds one; in a real server they come in any. A dry
//     run of that has them in any here too.
//   - CBOR is refused, as a real API server refuses it by default, but with [Options.CBOR].
//   - Requests run concurrently, as they come. Whoever needs them in an order makes them in that order.
package apiserver
