package recorder

import (
	"crypto/rand"
	"fmt"
	"io"
	"time"

	"k8s.io/client-go/rest"

	"github.com/opreplay/opreplay/internal/apicall"
	"github.com/opreplay/opreplay/internal/cli"
	"github.com/opreplay/opreplay/traces"
)

// Options are common to Capture, Proxy and Run.
type Options struct {
	// Out is the trace folder to make. It must not exist or be empty.
	Out string
	// Config is the cluster and the caller's credentials; see Access.Load.
	Config *rest.Config
	// Namespace is the default namespace of the kubeconfig that a proxy writes.
	Namespace string

	// Resources are what to watch, named as kubectl names them: "pods", "po", "deployments.apps",
	// "widgets.v1.zoo.example.com". Empty: all that can be listed and watched, and those of CRDs that
	// come later.
	Resources []string
	// Exclude are resources not to watch, named alike.
	Exclude []string
	// Namespaces to watch; empty means all. Resources without namespaces are watched all the same,
	// for a replay needs them (CRDs, the Namespaces themselves).
	Namespaces []string

	// IncludeSecrets records the values of Secrets and tokens. Else they are replaced by a keyed hash
	// whose key is forgotten.
	IncludeSecrets bool
	// Duration ends the recording; 0 means when the context ends.
	Duration time.Duration
	// Tool is the program and version for the manifest.
	Tool string
	// Progress shows a line on a terminal; nil shows none.
	Progress Progress
	// Note says things that a user should know, a line each; nil drops them.
	Note func(format string, args ...any)

	// EBPF is whether Run looks at the operator from the kernel: reconciles, stacks of calls, samples of where
	// its time goes. "" is EBPFOff.
	EBPF EBPF
	// Choice is the processes that Capture looks at so; the zero Choice is none. Their API calls are recorded too.
	Choice
	// Hz is how often a processor is sampled, in a second; 0 means bpf.DefaultHz.
	Hz int
	// KernelEvents are what is told of that befalls those processes in the kernel.
	KernelEvents KernelEvents

	// MetricsAddr is where metrics of the recording are served while it is under way, HOST:PORT on loopback; "" for
	// nowhere.
	MetricsAddr string

	// Scrape is what is scraped of the operator's metrics, by Run and Capture.
	Scrape Scrape

	appended func(traces.Record) // a test's ear
}

// Progress is a line that is rewritten in place; *cli.Progress is one.
type Progress interface {
	Set(format string, args ...any)
	Done()
}

// ProxyOptions are those of Proxy.
type ProxyOptions struct {
	Options
	// Listen is the address; "" means 127.0.0.1:0. It must be a loopback address.
	Listen string
	// Kubeconfig is where to write the clients' kubeconfig (mode 0600). "" takes a temporary folder
	// that is removed at the end.
	Kubeconfig string
	// Open lets clients in without the secret path of the kubeconfig's server, for those that can be
	// given only an address: every user of this machine then has the caller's rights on the cluster.
	Open bool
	// Capture watches the cluster too; Resources, Exclude and Namespaces say what.
	Capture bool
	// Name is the process name of all calls; "" takes each client's User-Agent up to the "/".
	Name string
	// Ready is called when the proxy serves.
	Ready func(Endpoint)
}

// Endpoint is how clients reach a proxy.
type Endpoint struct{ URL, Kubeconfig string }

// RunOptions are those of Run.
type RunOptions struct {
	Options
	// Command is the operator and its arguments. {kubeconfig} in an argument stands for the path of
	// the proxy's kubeconfig, for operators that take it by a flag; KUBECONFIG is set in any case.
	Command []string
	// Name is the operator's name in the trace; "" takes the command's base name.
	Name string
	// Env are KEY=VALUE pairs added to the environment.
	Env []string
	// NoCapture leaves the cluster itself out: the trace holds only what the operator saw and did.
	NoCapture bool
	// Stdout and Stderr get the operator's output; nil drops it. It is recorded in any case.
	Stdout, Stderr io.Writer
	// Grace is how long the operator may take to end after SIGTERM; 0 means 10 seconds.
	Grace time.Duration
}

// Result says what was recorded.
type Result struct {
	// Dir is the trace folder.
	Dir string
	// Events, Requests and Logs are numbers of rows.
	Events, Requests, Logs int64
	// Reconciles and Samples are rows too, known where the operator was looked at from the kernel.
	Reconciles, Samples int64
	// Metrics are the rows of what was scraped.
	Metrics int64
	// Losses are what is known to be missing, as in the manifest.
	Losses int64
	// Exit is the operator's exit code; nil where there was none (-1: ended by a signal).
	Exit *int
	// Signal is what ended it, such as "SIGSEGV"; "" for none.
	Signal string
	// ExitedByRecorder is set when the recorder ended the operator.
	ExitedByRecorder bool
}

// onlyWatches refuses what chooses what is watched when nothing is.
func (o *Options) onlyWatches(watches bool, instead string) error {
	for _, f := range []struct {
		flag  string
		words []string
	}{{"--resource", o.Resources}, {"--exclude", o.Exclude}, {"--namespace", o.Namespaces}} {
		if len(f.words) > 0 && !watches {
			return cli.Usagef("%s %s chooses what of the cluster is watched, which nothing is: %s", f.flag, f.words[0], instead)
		}
	}
	return nil
}

func (o *Options) note(format string, args ...any) {
	if o.Note != nil {
		o.Note(format, args...)
	}
}

func (o *Options) redactor() apicall.Redactor {
	if o.IncludeSecrets {
		return nil
	}
	key := make([]byte, 32)
	_, _ = rand.Read(key) // never fails (crypto/rand)
	return apicall.Secrets(key)
}

// Failed says that the operator ended by itself, and not well: by a signal or with an exit code other than 0.
func (r *Result) Failed() bool { return r.Exit != nil && *r.Exit != 0 && !r.ExitedByRecorder }

// Summary says it in a line for the user.
func (r *Result) Summary() string {
	s := fmt.Sprintf("recorded %s, %s and %s into %s", count(r.Events, "event", "events"),
		count(r.Requests, "call", "calls"), count(r.Logs, "log line", "log lines"), r.Dir)
	if r.Reconciles+r.Samples > 0 {
		s += fmt.Sprintf("; %s and %s", count(r.Reconciles, "reconcile", "reconciles"), count(r.Samples, "sample of its stacks", "samples of its stacks"))
	}
	if r.Metrics > 0 {
		s += fmt.Sprintf("; %s of metrics", count(r.Metrics, "sample", "samples"))
	}
	if r.Losses > 0 {
		s += fmt.Sprintf("; %s of something missing, see oprec inspect", count(r.Losses, "note", "notes"))
	}
	switch {
	case r.Exit == nil || r.ExitedByRecorder:
	case r.Signal != "":
		s += "; the operator was killed by " + r.Signal
	default:
		s += fmt.Sprintf("; the operator ended with exit code %d", *r.Exit)
	}
	return s
}
