package explore

import (
	"slices"

	"github.com/opreplay/opreplay/traces"
)

// mostPlans is more than any recording of a usual length has plans for.
const mostPlans = 5000

// Plans are those that an exploration would run of an unaltered run, in its order, but for those of chance. ROWS are
// the run's, OPERATORS the operators' processes in it.
func Plans(rows []traces.Record, operators []string, seed uint64) []Planned {
	all, _ := enumerate(read(rows, operators), seed, mostPlans)
	return slices.DeleteFunc(all, func(p Planned) bool { return p.Kind == KindRandom })
}
