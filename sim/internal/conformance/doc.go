// Package conformance asks two API servers the same and compares their answers: the real one of
// internal/livecluster and the one that sim/apiserver embeds. It is what the simulator's fidelity rests on.
//
//	pair := &conformance.Pair{Real: real, Ours: ours, Known: conformance.KnownDifferences}
//	s := conformance.Generate(seed, number, "")      // a sequence of some twenty operations
//	outcomes, err := pair.Run(ctx, s)                // in a namespace of its own on both servers
//	…
//	s, err = pair.Shrink(ctx, s, differences, 200)   // what of it is needed to see them
//	fmt.Print(s)                                     // lines of JSON that Parse reads
//
// The servers come in with the package's tests:
//
//	make conformance                                                        # 10,000 operations, and the table of docs/fidelity.md
//	go test ./sim/internal/conformance -v -args -operations 2000 -seed 7             # another run
//	go test ./sim/internal/conformance -v -args -operations 500 -only apply          # of one area
//	go test ./sim/internal/conformance -v -args -operations 2000 -cbor                # in CBOR, with the feature gate
//	go test ./sim/internal/conformance -v -args -first 12 -operations 1 -shrink 200  # sequence 12 alone, made smaller
//	go test ./sim/internal/conformance -run TestConformance -v -args -sequence FILE     # one that failed, from a file
//
// # What is asked
//
// [Generate] makes sequences of several kinds ([Scenarios]): the life of objects of some fifty built-in kinds
// (kinds.yaml) and of custom kinds with schemas at random, with all verbs, patches, options and forms; lists in
// pages and at versions, watches, server-side apply, deletion in all its ways, what only pods, Services,
// namespaces and CRDs have, discovery, reviews, policies, webhooks ([Hooks], which the tests serve to both), quotas,
// permissions, and requests that no friendly client makes. Changes are taken from lists, or made up by the kind's Go
// type or schema, so that a third of the requests is refused: refusals are answers too. [InCBOR] asks a sequence in CBOR,
// of servers with the feature gate.
//
// # What is compared
//
// All of an answer: code, headers that clients look at, warnings, and the whole body, decoded from whatever
// form it has; of a watch all its events in their order, and whether it has ended. What servers decide by
// chance or by their clock is not left out but named by its order: a uid is the n-th one that the sequence
// met, a resourceVersion its rank among those that objects had, a list's version the rank of the newest object
// version that it includes, a time "now" or so much later, generated names, addresses and ports the n-th of
// their kind. So "this is that object's uid" and "this is newer than that" are compared.
//
// Not compared are: the order of managedFields entries (it depends on the second), of the parts of a message
// about several errors, of conflicts, of a user's rules and of a namespace's finalizers (they come from maps), which of
// several schema errors an apply names, where a server's history begins, the spelling of continue tokens, hashes
// of OpenAPI documents, groups of CRDs that earlier sequences have deleted, the audit id, bookmarks other than the
// one that ends a WatchList (they come when a server thinks it right; of a watch that is compared [Op.Whole] they
// are), and how the two know the client.
//
// Where the real server's answer may lawfully be older than its newest state (resourceVersion 0, the beginning
// of a watch), the sequence has it catch up first ([Op.Settle]); what is awaited there ([Await]) is what it does
// some time after its answer.
//
// # What differs
//
// [KnownDifferences] is the list of what differs for a reason, each with a sequence that shows it.
package conformance
