// Package versus measures sim/apiserver against what it stands for: a real etcd and kube-apiserver, with one
// client, in one run, taking turns. Beside a test of its client it has benchmarks. BenchmarkWeight (make weight) says what opsim
// weighs. BenchmarkVersus (make versus) prints a table with a line for each kind of object, number of workers and
// verb:
//
//	kind       workers verb     ops/s: real     ours  ratio   CPU µs/op: real     ours  ratio
//	widget           1 update           129      704    5.5              4317      983   0.23
//
// Each server runs in processes of its own (ours is the test binary, started once more), so the CPU time is the
// server's alone, user and system, without the client's; that of the real one is etcd's and kube-apiserver's
// together. The operations per second are what the client sees, and include its own work. Both are reached over
// loopback TCP, each as its users reach it: the real one by TLS and HTTP/2, ours by plain HTTP/1.1.
//
// The verbs are those of a controller: create, get, list (of all objects of a round; the answer is read but not
// decoded, since decoding it takes the client longer than either server takes to make it), update, a merge patch
// of the status or of the data, a server-side apply that changes a field, and delete. A watch is open all the
// time; its latency is the time from sending a create or an update to the arrival of its event.
//
// A round does all verbs on one server, then on the other; a busy machine slows both. VERSUS_ROUNDS and
// VERSUS_OBJECTS change how many rounds there are and how many objects each has. For work on our server,
// VERSUS_ALONE=1 leaves the real one out (both columns are ours then) and VERSUS_PROFILE=FILE writes a CPU profile.
package versus
