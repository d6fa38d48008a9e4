package analysis

import (
	"fmt"
	"slices"
	"strings"
)

// registered are all detectors, in the order in which one's finding explains another's about the same process and objects:
// an endless loop is why there are so many empty writes, and a lost status is what the conflicts are about.
var registered = []struct {
	name string
	make func() Detector
}{
	{"missing-kind", func() Detector { return NewMissingKind() }},
	{"panic-loop", func() Detector { return NewPanicLoop() }},
	{"resource-exhaustion", func() Detector { return NewResourceExhaustion() }},
	{"circuit-breaker", func() Detector { return NewCircuitBreaker() }},
	{"no-deadline", func() Detector { return NewNoDeadline() }},
	{"two-leaders", func() Detector { return NewTwoLeaders() }},
	{"stale-read", func() Detector { return NewStaleRead() }},
	{"wrong-incarnation", func() Detector { return NewWrongIncarnation() }},
	{"missed-state", func() Detector { return NewMissedState() }},
	{"tombstone", func() Detector { return NewTombstone() }},
	{"crash-gap", func() Detector { return NewCrashGap() }},
	{"finalizer-early", func() Detector { return NewFinalizerEarly() }},
	{"duplicate-create", func() Detector { return NewDuplicateCreate() }},
	{"owner-reference", func() Detector { return NewOwnerReference() }},
	{"schema", func() Detector { return NewSchemaDrift() }},
	{"webhook-bypass", func() Detector { return NewWebhookBypass() }},
	{"normalise", func() Detector { return NewNormalise() }},
	{"fight", func() Detector { return NewFight() }},
	{"self-loop", func() Detector { return NewSelfLoop() }},
	{"observed-generation", func() Detector { return NewObservedGeneration() }},
	{"lost-status", func() Detector { return NewLostStatus() }},
	{"conflict-storm", func() Detector { return NewConflictStorm() }},
	{"churn", func() Detector { return NewChurn() }},
	{"finalizer-hang", func() Detector { return NewFinalizerHang() }},
	{"retry-storm", func() Detector { return NewRetryStorm() }},
	{"starvation", func() Detector { return NewStarvation() }},
	{"hot-stack", func() Detector { return NewHotStack() }},
	{"amplification", func() Detector { return NewAmplification() }},
	{"probe", func() Detector { return NewProbe() }},
	{"environment", func() Detector { return NewEnvironment() }},
	{"useless-reconciles", func() Detector { return NewUselessReconciles() }},
	{"queue-wait", func() Detector { return NewQueueWait() }},
	{"rbac", func() Detector { return NewRBAC() }},
	{"metrics", func() Detector { return NewMetrics() }},
}

// All is one of each detector, with the thresholds that are right for most.
func All() []Detector {
	var all []Detector
	for _, k := range registered {
		all = append(all, k.make())
	}
	return all
}

// Names are the names of all detectors.
func Names() []string {
	var names []string
	for _, k := range registered {
		names = append(names, k.name)
	}
	return names
}

// Select is the detectors of those names.
func Select(names []string) ([]Detector, error) {
	var chosen []Detector
	for _, name := range names {
		i := slices.Index(Names(), name)
		if i < 0 {
			return nil, fmt.Errorf("no detector %q; there are %s", name, strings.Join(Names(), ", "))
		}
		chosen = append(chosen, registered[i].make())
	}
	return chosen, nil
}

// precedence is the place of a detector in the order of explanation; those not among them come last.
func precedence(detector string) int {
	for i, k := range registered {
		if k.name == detector {
			return i
		}
	}
	return len(registered)
}
