package explore

import (
	"cmp"
	"maps"
	"slices"

	"github.com/opreplay/opreplay/replay/shrink"
	"github.com/opreplay/opreplay/replay/trial"
)

// Group is alarms with one cause.
type Group struct {
	// Alarm is the gravest of the smallest plan's run, Also what else that run or others showed.
	Alarm trial.Alarm   `json:"alarm"`
	Also  []trial.Alarm `json:"also,omitempty"`
	// Plans is the number of plans that showed it, Kinds which kinds they are of.
	Plans int    `json:"plans"`
	Kinds []Kind `json:"kinds"`
	// Index is that of the smallest of them; -1: the unaltered run shows it.
	Index int       `json:"index"`
	Try   trial.Try `json:"try"`
	// Small is what shrinking made of it; nil if it was not shrunk.
	Small *shrink.Small `json:"small,omitempty"`
	// Story says what happened.
	Story *shrink.Story `json:"story,omitempty"`
	// File is the plan's file, Command shows it again.
	File    string `json:"file,omitempty"`
	Command string `json:"command,omitempty"`
}

// grouper puts alarms together that show in the same runs of one fault.
type grouper struct {
	parent map[string]string // by key of an alarm
}

func (g *grouper) find(k string) string {
	for g.parent[k] != "" && g.parent[k] != k {
		k = g.parent[k]
	}
	return k
}

func (g *grouper) join(a, b string) {
	x, y := g.find(a), g.find(b)
	g.parent[x], g.parent[y] = min(x, y), min(x, y)
}

// sighting is a run with alarms.
type sighting struct {
	row    *Row
	alarms []trial.Alarm
}

// group makes groups of the alarms of all rows, the gravest first.
func group(rows []Row) ([]*Group, error) {
	var all []sighting
	for i := range rows {
		alarms, err := rows[i].found()
		if err != nil {
			return nil, err
		}
		if len(alarms) > 0 {
			all = append(all, sighting{&rows[i], alarms})
		}
	}
	// The smallest first: it names what it shows, and gives the smallest plan.
	slices.SortStableFunc(all, func(a, b sighting) int {
		return cmp.Or(cmp.Compare(a.size(), b.size()), cmp.Compare(a.row.Index, b.row.Index))
	})
	g := &grouper{parent: map[string]string{}}
	for _, s := range all {
		if s.size() == small {
			for _, a := range s.alarms {
				g.join(s.alarms[0].Key(), a.Key())
			}
		}
	}
	g.followers(all)
	g.fates(all)
	return g.collect(all), nil
}

// small is the size of a plan of one fault and nothing else.
const small = 1

// size orders plans by what they need.
func (s *sighting) size() int {
	n := s.row.faults()
	if s.row.Threads != "fifo" {
		n += 2
	}
	if s.row.Procs > 1 {
		n += 2
	}
	return n + int(s.row.Replicas) - 1
}

// followers joins alarms that only show in larger plans to those which they never show without.
func (g *grouper) followers(all []sighting) {
	known := map[string]bool{}
	for k := range g.parent {
		known[k] = true
	}
	with := map[string]map[string]bool{} // by new key: the groups that were there each time
	for _, s := range all {
		here := map[string]bool{}
		for _, a := range s.alarms {
			if known[a.Key()] {
				here[g.find(a.Key())] = true
			}
		}
		for _, a := range s.alarms {
			k := a.Key()
			switch {
			case known[k]:
			case with[k] == nil:
				with[k] = map[string]bool{}
				for h := range here {
					with[k][h] = true
				}
			default:
				for h := range with[k] {
					if !here[h] {
						delete(with[k], h)
					}
				}
			}
		}
	}
	for _, k := range slices.Sorted(maps.Keys(with)) {
		if groups := slices.Sorted(maps.Keys(with[k])); len(groups) > 0 {
			g.join(k, groups[0])
		}
	}
	for _, s := range all { // what shows together in a run and nowhere else is one
		first := ""
		for _, a := range s.alarms {
			k := a.Key()
			if known[k] || len(with[k]) > 0 {
				continue
			}
			if first == "" {
				first = k
			}
			g.join(first, k)
		}
	}
}

// fates joins what becomes of the objects of one resource: that one is missing, is there twice or was made again depends
// on when the same thing happened.
func (g *grouper) fates(all []sighting) {
	first := map[string]string{} // by resource
	for _, s := range all {
		for _, a := range s.alarms {
			if !a.Fate() {
				continue
			}
			if first[a.Resource] == "" {
				first[a.Resource] = a.Key()
			}
			g.join(first[a.Resource], a.Key())
		}
	}
}

func (g *grouper) collect(all []sighting) (groups []*Group) {
	byRoot := map[string]*Group{}
	told := map[string]bool{}
	for _, s := range all {
		counted := map[string]bool{}
		for _, a := range s.alarms {
			root := g.find(a.Key())
			b := byRoot[root]
			if b == nil {
				b = &Group{Alarm: a, Index: int(s.row.Index)}
				byRoot[root] = b
				groups = append(groups, b)
			} else if !told[a.Key()] {
				b.Also = append(b.Also, a)
			}
			told[a.Key()] = true
			if counted[root] {
				continue
			}
			counted[root] = true
			b.Plans++
			if !slices.Contains(b.Kinds, Kind(s.row.Kind)) {
				b.Kinds = append(b.Kinds, Kind(s.row.Kind))
			}
		}
	}
	slices.SortStableFunc(groups, func(a, b *Group) int {
		return cmp.Or(cmp.Compare(a.Alarm.Grave(), b.Alarm.Grave()), cmp.Compare(b.Plans, a.Plans))
	})
	return groups
}
