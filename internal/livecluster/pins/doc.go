// Package pins keeps the versions of two Go modules together: the product's and that of the control
// plane (internal/livecluster/controlplane). A package that both need is compiled once only if both
// need the same version of its module and of all that it imports.
//
//	product, err := pins.Read(ctx, ".")
//	control, err := pins.Read(ctx, "internal/livecluster/controlplane")
//	for _, d := range pins.Differences(product, control) { … }
//
// Its test fails when the two differ and names the modules; `go generate ./internal/livecluster` raises
// the lower of each.
package pins
