// Package operators is the zoo: small real operators, each with one named fault and, as --fixed of the
// same binary, its mended twin. README.md in this folder has the table of faults. Each operator is a
// program of its own in the folder of its name, and depends on nothing of this project.
//
// This package knows what there is: names, custom resource definitions, and what the analysis is expected
// to find. Package scenario knows what a user does to each.
package operators

import _ "embed"

// Operator is one pair of the zoo.
type Operator struct {
	// Name is that of the folder and of the binary.
	Name string
	// Fault is what is wrong with it, in a few words.
	Fault string
	// Finding is the name of the detector that must report the fault.
	Finding string
	// CRDs are its custom resource definitions, YAML documents.
	CRDs []byte
}

var (
	//go:embed statusloop/crd.yaml
	statusloopCRDs []byte
	//go:embed statusrace/crd.yaml
	statusraceCRDs []byte
	//go:embed orphanfinalizer/crd.yaml
	orphanfinalizerCRDs []byte
)

// Zoo is every pair, in the order in which they are shown.
func Zoo() []Operator {
	return []Operator{
		{"statusloop", "writes its status with a fresh time on every pass", "self-loop", statusloopCRDs},
		{"statusrace", "two controllers write one status from stale copies", "lost-status", statusraceCRDs},
		{"orphanfinalizer", "gives up its clean-up when the owner is gone", "finalizer-hang", orphanfinalizerCRDs},
	}
}

// Find returns the operator of that name.
func Find(name string) (Operator, bool) {
	for _, o := range Zoo() {
		if o.Name == name {
			return o, true
		}
	}
	return Operator{}, false
}
