package html

import (
	"slices"
	"strings"

	"github.com/opreplay/opreplay/analysis"
	"github.com/opreplay/opreplay/analysis/report"
)

// keeper keeps about as many events as a page has room for, in memory that is bounded by that: all that findings name, of
// each lane the first, and of the rest every so-and-so-many-th, the lanes that findings are about last to be thinned.
type keeper struct {
	most   int
	named  map[int64]bool // seqs that findings name
	events []event        // in the order of seq
	// Every step-th event of a lane is kept.
	plain, found int
}

// left is what a page has no room for.
type left struct {
	All, Drawn int // events
	// Every so-and-so-many-th event of the lanes is drawn.
	Plain, Found int
	// Lanes that are not drawn at all, and how many events they have.
	Lanes, Folded int
}

// slack is how many times as many events as a page has room for are held until it is known which lanes it has.
const slack = 4

func newKeeper(most int, r *analysis.Result) keeper {
	k := keeper{most: most, named: map[int64]bool{}, plain: 1, found: 1}
	for i := range r.Findings {
		f := &r.Findings[i]
		k.named[f.Row] = true
		for _, e := range f.Evidence.Items {
			k.named[e.Seq] = true
		}
		for _, s := range f.Path {
			k.named[s.Seq] = true
		}
	}
	return k
}

func (k *keeper) add(e event) {
	e.place = e.lane.n
	e.lane.n++
	e.lane.named = e.lane.named || k.named[e.seq]
	if !k.wants(&e) {
		return
	}
	k.events = append(k.events, e)
	if len(k.events) > slack*k.most {
		k.thin(slack * k.most)
	}
}

func (k *keeper) wants(e *event) bool {
	step := k.plain
	if e.lane.found {
		step = k.found
	}
	return e.place%step == 0 || k.named[e.seq]
}

// thin leaves out every second of those that are left until there are at most so many, or only first ones of their lanes
// and such that findings name.
func (k *keeper) thin(most int) {
	const sparse = 1 << 40
	for len(k.events) > most && k.found < sparse {
		plain := 0
		for i := range k.events {
			if e := &k.events[i]; !e.lane.found && e.place > 0 && !k.named[e.seq] {
				plain++
			}
		}
		if plain > most/4 {
			k.plain *= 2
		} else { // lanes of findings are most of it
			k.found *= 2
			k.plain = max(k.plain, k.found)
		}
		k.events = slices.DeleteFunc(k.events, func(e event) bool { return !k.wants(&e) })
	}
}

// settle keeps what is on the lanes of the page.
func (k *keeper) settle(lanes []*lane) left {
	k.events = slices.DeleteFunc(k.events, func(e event) bool { return e.lane.index < 0 })
	k.thin(k.most)
	l := left{Drawn: len(k.events), Plain: k.plain, Found: k.found}
	for _, x := range lanes {
		l.All += x.n
		if x.index < 0 {
			l.Lanes++
			l.Folded += x.n
		}
	}
	return l
}

// recent remembers versions and the rows that told of them first, of the last few hundred thousand at least: that is how
// far apart streams deliver one. What comes later is known by its lane's newest version.
type recent struct {
	now, before map[version]int64
	forgotten   bool // some
}

const generation = 200_000

func (r *recent) find(v version) (seq int64, ok bool) {
	if seq, ok = r.now[v]; !ok {
		seq, ok = r.before[v]
	}
	return seq, ok
}

func (r *recent) add(v version, seq int64) {
	if r.now == nil || len(r.now) >= generation {
		r.now, r.before, r.forgotten = map[version]int64{}, r.now, r.before != nil
	}
	r.now[v] = seq
}

// Said is what a reader has to know of it, in sentences; none where the page has everything.
func (l left) Said() []string {
	var said []string
	if thinned := l.All - l.Folded - l.Drawn; thinned > 0 {
		of := "of lanes that findings are about all are drawn"
		if l.Found > 1 {
			of = "of lanes that findings are about every " + ordinal(l.Found) + " is drawn"
		}
		said = append(said, report.Plural(thinned, "event is", "events are")+" not drawn for want of room: "+of+", of the others every "+ordinal(l.Plain)+"; what findings name is drawn always.")
	}
	if l.Lanes > 0 {
		said = append(said, "The page has no room for "+report.Plural(l.Lanes, "lane", "lanes")+" more, with "+report.Plural(l.Folded, "event", "events")+"; those that findings are about or name are all here, then come those with most events.")
	}
	return said
}

// ordinal is for powers of two: 2nd, 4th, 8th.
func ordinal(n int) string {
	text := report.Thousands(int64(n))
	if strings.HasSuffix(text, "2") && !strings.HasSuffix(text, "12") {
		return text + "nd"
	}
	return text + "th"
}
