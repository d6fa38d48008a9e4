// Package actor plays the outsiders of a recording: users with kubectl, kubelets, other controllers, whatever
// changed the recorded cluster and is not the operator that runs again.
//
// A Step is one recorded change. A Player applies it to a cluster that need not be the recorded one any more, since
// the operator may do otherwise this time: not the recorded object is written but the recorded change, to
// the object as it is now.
//
//	p := actor.NewPlayer(actor.Options{Write: outsiders, Read: direct, Refs: refs})
//	outcome := p.Apply(ctx, actor.Step{
//		Kind: actor.Change, Version: "v1", Resource: "configmaps", Namespace: "a", Name: "settings",
//		Before: `{"metadata":{…},"data":{"size":"3"}}`, After: `{"metadata":{…},"data":{"size":"5"}}`,
//		Manager: "kubectl-edit",
//	})
//
// # How a step becomes API calls
//
//   - A create is a POST with the recorded uid, resourceVersion and creation time as hints for the store; a
//     status, which a POST does not take, follows as a patch of the status subresource.
//   - A change is the difference before → after, moved onto the object as it is now (Rebase), and sent as a
//     JSON merge patch that holds only if the object did not change in between. What belongs to the status
//     goes to the status subresource where there is one; a pod's node goes to its binding.
//   - A deletionTimestamp that appears is a DELETE with the propagation and grace period that the object shows;
//     a finalizer that goes is a change.
//   - A delete that the garbage collector made waits until an owner is gone in this run too.
//   - The end of a namespace takes what this run has put into it along, as the namespace controller does.
//
// uids of ownerReferences are mapped from the recorded object to the one that has its place now. What the
// API server manages itself (resourceVersion, generation, managedFields, …) is never sent.
//
// Namespaces does what that controller does where neither a script nor a process does it:
//
//	again, err := actor.NewNamespaces(outsiders, direct, world.Now).Finish(ctx, "shop")   // one pass
//
// A step that cannot be applied, since its object does not exist or exists already, is skipped and says so in its
// Outcome. That is a divergence of the run, not an error.
package actor
