// Package operators is the zoo: small real operators, each with one named fault and, as --fixed of the
// same binary, its mended twin. README.md in this folder has the table of faults. Each operator is a
// program of its own in the folder of its name, and depends on nothing of this project.
//
// Some faults show in any run: a detector finds them. The others show under the right timing only, which is in
// the operator's plan.yaml.
//
// This package knows what there is: names, custom resource definitions, plans, and what the analysis is expected
// to find. Package scenario knows what a user does to each.
package operators

import (
	"embed"
	"fmt"
	"slices"
)

// Operator is one pair of the zoo.
type Operator struct {
	// Name is that of the folder and of the binary.
	Name string
	// Fault is what is wrong with it, in a few words.
	Fault string
	// Finding is the name of the detector that must report the fault in any run, by a finding or, where it has notes alone,
	// by a note; "" where a plain run is well.
	Finding string
	// Noted is set where it has notes alone, which are no alarms.
	Noted bool
	// CRDs are its custom resource definitions, YAML documents.
	CRDs []byte
	// Manifests are further objects that must be there, YAML documents; nil for none.
	Manifests []byte
	// Plan is the timing that the fault needs to show, as opsim replay --plan takes it; nil where it needs none.
	Plan []byte
	// Scraped is set where the recording has what its metrics endpoint says.
	Scraped bool
	// Replicas is how many processes of it the plan is about: NAME, NAME-2, …; 0 is one.
	Replicas int
}

//go:embed */crd.yaml */plan.yaml */objects.yaml
var files embed.FS

// Zoo is every pair that can be replayed, in the order in which they are shown.
func Zoo() []Operator {
	all := []Operator{
		{Name: "statusloop", Fault: "writes its status with a fresh time on every pass", Finding: "self-loop"},
		{Name: "statusrace", Fault: "two controllers write one status from stale copies", Finding: "lost-status"},
		{Name: "orphanfinalizer", Fault: "gives up its clean-up when the owner is gone", Finding: "finalizer-hang"},
		{Name: "tugofwar", Fault: "two of its controllers want one field", Finding: "fight"},
		{Name: "prunedfield", Fault: "sends a field that is never stored, over and over", Finding: "normalise"},
		{Name: "wronglabel", Fault: "labels its status with a generation that it was not made from", Finding: "observed-generation"},
		{Name: "farowner", Fault: "makes an object in another namespace the owner", Finding: "owner-reference"},
		{Name: "retrystorm", Fault: "tries again at a fixed delay for as long as its source is missing", Finding: "retry-storm"},
		{Name: "panicloop", Fault: "panics on each retry when a cluster is gone that it takes to be there", Finding: "panic-loop"},
		{Name: "missingkind", Fault: "uses a kind that its scheme does not have", Finding: "missing-kind"},
		{Name: "starvation", Fault: "waits in line for a worker, and keeps everybody else waiting", Finding: "starvation"},
		{Name: "halfcreate", Fault: "makes the second of two objects only where it made the first"},
		{Name: "staleclaim", Fault: "deletes by name what belongs to a later object of that name"},
		{Name: "doublecreate", Fault: "creates again what its cache does not show yet"},
		{Name: "earlyrelease", Fault: "lets go of an object when its cache shows no dependents"},
		{Name: "fatalconflict", Fault: "gives up for good when a write conflicts"},
		{Name: "droppedstatus", Fault: "drops a status value when its write is refused"},
		{Name: "missedsize", Fault: "takes its work from the changes that it sees"},
		{Name: "tombstone", Fault: "panics when a delete is only seen by its absence"},
		{Name: "twoleaders", Fault: "goes on when it has lost its lease", Replicas: 2},
		{Name: "eventflood", Fault: "tells of each try by an Event of its own", Finding: "amplification"},
		{Name: "openbreaker", Fault: "has a circuit breaker that never closes", Finding: "circuit-breaker"},
		{Name: "oldpods", Fault: "changes the settings of pods that have read them", Finding: "environment"},
		{Name: "alwaysready", Fault: "says Ready of what is ready no more", Finding: "probe"},
		{Name: "narrowschema", Fault: "takes out of a definition what objects have", Finding: "schema"},
		{Name: "unscraped", Fault: "has its metrics selected by a label that they do not have", Finding: "metrics", Noted: true},
		{Name: "throttled", Fault: "waits for its own client", Finding: "queue-wait", Noted: true},
	}
	return read(all)
}

// Recorded are further pairs, whose fault a recording alone shows: what a simulated world does not have (processors,
// addresses that nobody listens at, metrics that somebody scrapes), or a replay would not make anew (who is permitted what). They have no case: both
// twins are recorded.
func Recorded() []Operator {
	return read([]Operator{
		{Name: "lostgauge", Fault: "dials an address for ever that is no more", Finding: "resource-exhaustion"},
		{Name: "nodeadline", Fault: "waits for as long as the server does", Finding: "no-deadline"},
		{Name: "latehook", Fault: "makes objects before its own webhook listens", Finding: "webhook-bypass"},
		{Name: "busywait", Fault: "waits by asking its clock over and over", Finding: "hot-stack"},
		{Name: "nopredicate", Fault: "has a pass for each change of a status that others write", Finding: "useless-reconciles"},
		{Name: "overgranted", Fault: "may do more than it does", Finding: "rbac"},
		{Name: "misnamed", Fault: "has metrics whose names tell another story", Finding: "metrics", Scraped: true},
		{Name: "oneworker", Fault: "does one thing at a time that takes long", Finding: "queue-wait", Scraped: true},
	})
}

// read adds what is in the operators' folders.
func read(all []Operator) []Operator {
	for i := range all {
		o := &all[i]
		o.CRDs = mustRead(o.Name + "/crd.yaml")
		if o.Finding == "" {
			o.Plan = mustRead(o.Name + "/plan.yaml")
		}
		o.Manifests, _ = files.ReadFile(o.Name + "/objects.yaml") // most have none
	}
	return all
}

// mustRead reads a file that is part of the binary.
func mustRead(name string) []byte {
	content, err := files.ReadFile(name)
	if err != nil {
		panic(fmt.Sprintf("examples/operators: %v", err)) // TestZoo
	}
	return content
}

// Find returns the operator of that name.
func Find(name string) (Operator, bool) {
	for _, o := range slices.Concat(Zoo(), Recorded()) {
		if o.Name == name {
			return o, true
		}
	}
	return Operator{}, false
}
