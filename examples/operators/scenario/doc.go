// Package scenario is what a user does to the operators of the zoo, as with kubectl: create, edit, wait,
// delete. It talks to the API server with client-go alone and goes on when it has seen what it waited for,
// so that a scenario takes a few seconds whatever the machine.
//
//	s, _ := scenario.For("statusloop")
//	s.Install(ctx, config) // definitions and namespace, before the operator starts
//	// start the operator
//	s.Play(ctx, config)
//
// A scenario treats both twins alike: where the faulty one never gets there, the user gives up after a
// while, as users do.
package scenario
