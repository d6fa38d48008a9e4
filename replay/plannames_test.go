package replay

import (
	"strings"
	"testing"

	"github.com/opreplay/opreplay/internal/cli"
	"github.com/opreplay/opreplay/sim/fault"
	"github.com/opreplay/opreplay/traces"
)

// A resource that is called by its singular is told of, in whatever part of a plan; others pass, known or not.
func TestSingularsInPlans(t *testing.T) {
	known := []traces.Resource{
		{Version: "v1", Resource: "configmaps"},
		{Group: "networking.k8s.io", Version: "v1", Resource: "ingresses"},
		{Group: "networking.k8s.io", Version: "v1", Resource: "networkpolicies"},
		{Group: "x.io", Version: "v1", Resource: "status"},
	}
	for line, meant := range map[string]string{
		`crash: {process: operator, after: "CREATE configmap/a #1"}`:                                 "configmaps",
		`hold: {watch: Ingress, from: "ADDED a", until: "CREATE configmaps/a"}`:                      "ingresses",
		`hold: {watch: ingresses, from: "ADDED a", until: "CREATE networkpolicy.networking.k8s.io"}`: "networkpolicies.networking.k8s.io",
		`restart: {process: operator, at: 9s, view: "configmap/a before UPDATE configmaps/a"}`:       "configmaps",
		`restart: {process: operator, at: "UPDATE configmap/a"}`:                                     "configmaps",
		`answer: {request: "UPDATE */status", code: 409}`:                                            "",
		`answer: {request: "*", code: 500}`:                                                          "",
		`answer: {request: "UPDATE status/a", code: 409}`:                                            "",
		`merge: {watch: configmaps, from: "ADDED a", to: "DELETED a"}`:                               "",
		`answer: {request: "CREATE widgets", code: 500}`:                                             "",
		`schema: {crd: configmap.x.io, field: spec.a, required: true, at: 1s}`:                       "",
	} {
		err := checkNames(&fault.Plan{Faults: mustFaults(t, line)}, known)
		if meant == "" && err != nil || meant != "" && (cli.ExitCode(err) != cli.ExitUsage || !strings.Contains(err.Error(), `did you mean "`+meant+`"?`)) {
			t.Errorf("%s: %v", line, err)
		}
	}
}

func mustFaults(t *testing.T, lines ...string) (all []fault.Fault) {
	t.Helper()
	for _, l := range lines {
		f, err := fault.ParseFault(l)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, f)
	}
	return all
}
