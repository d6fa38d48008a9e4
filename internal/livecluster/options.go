package livecluster

import (
	"fmt"
	"net"
	"net/url"
	"slices"
)

// Options say what to run beside etcd and kube-apiserver. The zero value is a bare API server.
type Options struct {
	// Controllers are the names of the controllers that kube-controller-manager runs, for instance
	// "garbage-collector-controller". "*" means all that are on by default, "-NAME" takes one out.
	// Empty: no controller manager. See DefaultControllers.
	Controllers []string

	// FeatureGates are those of the API server that are not as by default, each as NAME=true or NAME=false.
	FeatureGates []string

	// AuditLog writes an audit log; see Cluster.AuditLogFile.
	AuditLog bool

	// AuditWebhook is the URL that audit events are posted to as EventLists. It must lie on the
	// loopback interface, for the events carry whole bodies, those of Secrets too. Empty: none.
	AuditWebhook string

	// Dir is the folder for data, logs, keys and kubeconfigs. It is created if need be and kept by
	// Stop; a later cluster in the same folder finds the same objects, unless the machine crashed
	// (etcd does not sync). Empty: a temporary folder that Stop removes.
	Dir string

	// Progress is told in one line about what takes long or may surprise: a build, a binary that is
	// not of our version. Nil: Start uses the test's log, Up nothing.
	Progress func(format string, args ...any)
}

// DefaultControllers are the controllers that make sense without nodes: those of the workloads, garbage
// collection and the life of namespaces.
func DefaultControllers() []string {
	return []string{
		"garbage-collector-controller",
		"namespace-controller",
		"serviceaccount-controller",
		"deployment-controller",
		"replicaset-controller",
		"statefulset-controller",
		"daemonset-controller",
		"job-controller",
		"cronjob-controller",
		"disruption-controller",
		"endpointslice-controller",
		"pod-garbage-collector-controller",
		"ttl-after-finished-controller",
	}
}

func (o *Options) check() error {
	if slices.Contains(o.Controllers, "") {
		return fmt.Errorf("Options.Controllers %q: a controller's name is empty", o.Controllers)
	}
	if o.AuditWebhook == "" {
		return nil
	}
	u, err := url.Parse(o.AuditWebhook)
	if err != nil {
		return fmt.Errorf("Options.AuditWebhook: %w", err)
	}
	if u.Scheme != "http" {
		return fmt.Errorf("Options.AuditWebhook %q: want an http:// URL", o.AuditWebhook)
	}
	if ip := net.ParseIP(u.Hostname()); u.Hostname() != "localhost" && (ip == nil || !ip.IsLoopback()) {
		return fmt.Errorf("Options.AuditWebhook %q: want a loopback address such as 127.0.0.1, for audit events hold Secrets", o.AuditWebhook)
	}
	return nil
}
