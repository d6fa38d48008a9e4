package trial

import (
	"slices"

	"github.com/opreplay/opreplay/traces"
)

// version is a state that an object had.
type version struct {
	number int64  // its resourceVersion
	seq    int64  // of the row that showed it
	text   string // as JSON
}

// written names a version of an object.
type written struct {
	uid     string
	version int64
}

// answer takes a change by an outsider of what is there: which incarnation it met, and which version it made.
func (s *story) answer(r *traces.Request) {
	if (r.Verb != "update" && r.Verb != "patch") || r.Code < 200 || r.Code > 299 || r.UID == "" {
		return
	}
	s.answered = append(s.answered, r.UID)
	if v := (written{r.UID, r.ResourceVersion}); s.outside[v] == 0 {
		s.outside[v] = r.StartSeq + 1 // a version that was there when the call came is not its doing: it changed nothing
	}
}

// met are the incarnations of a key that outsiders' changes met, in their order, counted from 0.
func (s *story) met(key string) (all []int) {
	nth, n := map[string]int{}, 0
	for _, o := range s.objects {
		if s.key(o) == key {
			nth[o.UID] = n
			n++
		}
	}
	for _, uid := range s.answered {
		if i, ok := nth[uid]; ok {
			all = append(all, i)
		}
	}
	return all
}

// strayed says of a key whether outsiders' changes of it cannot be expected to have the end that they have in the
// reference: it is an object that the operator makes, and there were more incarnations of it, or fewer, or the changes met
// other ones. An outsider acts at its recorded time, and would have acted on the object that is there.
func strayed(ref, run *story, key string) bool {
	return (ref.made[key] || run.made[key]) &&
		(ref.incarnations()[key] != run.incarnations()[key] || !slices.Equal(ref.met(key), run.met(key)))
}

// outsiders are the paths of an object's leaves whose value, or absence, an outsider was the last to write, but for those
// that the operator ever wrote after one: what it puts back it answers for.
func (s *story) outsiders(o *object) (by, own map[string]bool) {
	by, own = map[string]bool{}, map[string]bool{}
	before := map[string]string{}
	for _, v := range o.versions {
		now := s.leavesOf(&object{text: v.text})
		start := s.outside[written{o.UID, v.number}]
		foreign := start > 0 && v.seq >= start
		wrote := func(p string) {
			own[p] = own[p] || by[p] && !foreign
			by[p] = foreign
		}
		for p, x := range now {
			if y, ok := before[p]; !ok || x != y {
				wrote(p)
			}
		}
		for p := range before {
			if _, ok := now[p]; !ok {
				wrote(p)
			}
		}
		before = now
	}
	return by, own
}
