// Package recorder makes traces of live clusters and operators.
//
// There are three ways, which share a trace writer, the redaction and the manifest:
//
//   - Capture lists and watches a cluster's resources: what changed, not who asked for it, but for the calls of
//     processes that it is told to look at from the kernel (Choice). It needs no change to anything that runs.
//   - Proxy is a recording API proxy on loopback with a kubeconfig of its own: every call, answer and
//     watch delivery of every client that uses it, by internal/apicall.
//   - Run starts an operator behind such a proxy, records its log, and captures the cluster into the
//     same trace, so that the trace holds the whole world and not only what the operator looked at.
//
// From Go:
//
//	config, namespace, err := recorder.Access{}.Load() // as kubectl would
//	…
//	result, err := recorder.Run(ctx, recorder.RunOptions{
//		Options: recorder.Options{Out: "t.optrace", Config: config, Namespace: namespace},
//		Command: []string{"./manager", "--metrics-bind-address=0"},
//		Stdout:  os.Stdout, Stderr: os.Stderr,
//	})
//
// All three return when their context or Options.Duration ends, with a closed trace: the end of a
// recording is no error. Meanwhile they keep a journal, of which traces.Repair makes a sound trace after a SIGKILL. Bad input (a kubeconfig that points nowhere, an unknown resource, a command
// that is not there) is an error of package cli's usage kind, found before the trace folder is made.
//
// # What the kernel shows
//
// With Options.EBPF, Run looks at its operator by package bpf, and Capture at the processes of Options.Choice: a joiner
// puts reconciles, samples and the code's lines beside the calls and events of the trace. Its sources report with
// delays; what comes waits until all have reported what happened before, and is taken in the order of time.
// With Options.KernelEvents, what befalls those processes in the kernel is told too. docs/profile.md says what is known
// and what is not.
//
// # The operator's metrics
//
// With Options.Scrape, Run and Capture read the operator's metrics endpoint as Prometheus would, into the table metrics. It
// may answer late, never, or with anything: that is a loss in the trace, and no end of the recording.
//
// # What a capture promises
//
// The first list of a resource is rows of type SYNC, then every event that the API server delivers is a
// row, in the server's own bytes. Watches resume where they broke. When the server no longer has what
// lies between (410), the resource is listed again: what differs becomes rows, SYNC for what is there
// and DELETED without an object for what is gone, and the manifest states a loss with the least number
// of states that nobody saw. Rows have Process "oprec" and streams capture/GROUP/RESOURCE ("core" for
// the group without a name).
//
// CRDs that are created meanwhile are followed unless Options.Resources chooses. events.k8s.io/events,
// the same objects as the core group's events, is left out.
//
// # Security
//
// Secret values are replaced before anything is written (internal/apicall.Secrets), files are 0600 and
// folders 0700, the proxy binds loopback only, checks the Host header and serves only below a secret path
// that stands in the kubeconfig that it wrote.
package recorder
