// Package peers runs somebody else's test suites against two API servers, a real one and ours, and
// compares them spec by spec: those of controller-runtime, taken from its module, unmodified, as envtest
// runs them. `make peers` is its command.
//
//	suites, err := peers.Build(ctx, peers.ControllerRuntime, dir, progress)
//	…
//	real, err := suites.Run(ctx, realAssets, progress)
//	ours, err := suites.Run(ctx, ourAssets, progress)
//	peers.Table(os.Stdout, real, ours)
//	lost := peers.Lost(real, ours)   // pass there, fail here
//
// The module is copied and its go.mod is raised to the versions of Kubernetes that this project pins, so
// that Go's build cache serves both; nothing else of it is touched.
package peers
