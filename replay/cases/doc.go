// Package cases is regression cases: a recording, an operator's command, a plan, and what has to come of it.
//
// A case is a folder:
//
//	case.yaml
//	trace.optrace/
//	plan.yaml
//
// and case.yaml says:
//
//	operator: [./manager, --metrics-bind-address=0]
//	trace: trace.optrace
//	plan: plan.yaml          # a file beside it, or the plan itself
//	without: [219]           # recorded changes by outsiders that are left out
//	expect:
//	  findings:              # [] for none
//	  - {oracle: missing, resource: services}
//	  final: differs         # or same, as after the unaltered run; nothing if it does not matter
//
// opsim explore --keep writes one for each of its findings. A fixed operator is expected to have findings: [] and
// final: same.
package cases
