package analysis

import "strings"

// Heartbeats are writes whose purpose is to be written: leader election (Leases since client-go 1.20, before
// that an annotation on a ConfigMap or Endpoints), a kubelet's report on its node, Events. They repeat for ever,
// by design, and never are a fault.

func heartbeatResource(k Key) bool {
	switch k.Group {
	case "coordination.k8s.io":
		return k.Resource == "leases"
	case "events.k8s.io":
		return true
	case "":
		return k.Resource == "events" || k.Resource == "nodes" || k.Resource == "componentstatuses"
	case "metrics.k8s.io":
		return true
	}
	return false
}

// leaderAnnotation is resourcelock.LeaderElectionRecordAnnotationKey of client-go.
const leaderAnnotation = `"control-plane.alpha.kubernetes.io/leader"`

func heartbeatObject(k Key, body string) bool {
	return k.Group == "" && (k.Resource == "configmaps" || k.Resource == "endpoints") && strings.Contains(body, leaderAnnotation)
}
