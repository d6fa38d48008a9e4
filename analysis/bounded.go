package analysis

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"
	"unsafe"

	"github.com/opreplay/opreplay/analysis/internal/jsontext"
)

// queue is a first-in first-out list that reuses its memory.
type queue[T any] struct {
	items []T
	head  int
}

func (q *queue[T]) len() int { return len(q.items) - q.head }
func (q *queue[T]) front() T { return q.items[q.head] }

func (q *queue[T]) push(x T) {
	if q.head > 64 && q.head*2 > len(q.items) {
		n := copy(q.items, q.items[q.head:])
		clear(q.items[n:])
		q.items, q.head = q.items[:n], 0
	}
	q.items = append(q.items, x)
}

func (q *queue[T]) pop() T {
	x := q.items[q.head]
	var none T
	q.items[q.head] = none
	q.head++
	return x
}

// spare is the memory of what comes and goes.
type spare[T any] struct{ list []*T }

// get is memory that was put aside, as it was then, or new.
func (s *spare[T]) get() *T {
	n := len(s.list)
	if n == 0 {
		return new(T)
	}
	x := s.list[n-1]
	s.list = s.list[:n-1]
	return x
}

func (s *spare[T]) put(x *T) { s.list = append(s.list, x) }

// rings remembers the last few of a series.
type rings[T any] struct {
	items []T
	n     int // how many there were
}

func (r *rings[T]) add(x T) {
	if len(r.items) < ring {
		r.items = append(r.items, x)
	} else {
		r.items[r.n%ring] = x
	}
	r.n++
}

func (r *rings[T]) len() int { return len(r.items) }

// newest is the i-th from the end.
func (r *rings[T]) newest(i int) *T { return &r.items[(r.n-1-i)%ring] }

// bodies keeps the text of objects' last versions within a limit, those that changed last: the next version
// of an object whose text was given up can't be compared.
type bodies struct {
	limit, size int   // bytes
	given       int64 // how many were given up
}

// keep copies the text of the object's new version, over that of the one before.
func (b *bodies) keep(s *State, top *jsontext.Top) {
	body := top.Text()
	if body == "" {
		b.drop(s)
		return
	}
	if overwrite {
		b.drop(s)
	}
	b.size -= cap(s.text)
	s.text = append(s.text[:0], body...)
	b.size += cap(s.text)
	s.Body, s.top = unsafe.String(unsafe.SliceData(s.text), len(s.text)), *top
	s.top.Move(s.Body)
}

// drop gives up the object's text.
func (b *bodies) drop(s *State) {
	b.size -= cap(s.text)
	if overwrite {
		for i := range s.text {
			s.text[i] = 0xff
		}
	}
	s.text, s.Body, s.top = nil, "", jsontext.Top{}
}

// shrink gives up the texts of the objects that have not changed for longest, if there are too many: an eighth at a time,
// so that it need not look through them for each version.
func (b *bodies) shrink(m *Model) {
	if b.size <= b.limit {
		return
	}
	var held []*State
	for s := range m.Objects {
		if s.Body != "" {
			held = append(held, s)
		}
	}
	changed := func(s *State) int64 { return s.authors.newest(0).seq }
	slices.SortFunc(held, func(a, b *State) int { return cmp.Compare(changed(a), changed(b)) })
	for _, s := range held {
		if b.size <= b.limit-b.limit/8 {
			break
		}
		b.drop(s)
		b.given++
	}
}

// places collects evidence within a bound: the first few and the last few, and how many there were over time.
type places struct {
	total       int64
	first, last []place
	begun       []int64 // times of the first few more, of which a rhythm and delays show
	over        *overTime
}

// place is one place in the trace. What it shows is put into words only when it is reported: form is a format
// for the two numbers, written in a detector; what has words of the trace, which may have a %, is a text.
type place struct {
	seq, ts    int64
	form, said string
	numbers    [2]int64
}

const (
	firstPlaces = 4
	lastPlaces  = 4
	begunPlaces = 64
)

func (p *places) add(seq, ts int64, form string, a, b int64) {
	p.put(place{seq: seq, ts: ts, form: form, numbers: [2]int64{a, b}})
}

// say adds a place with a text of its own.
func (p *places) say(seq, ts int64, text string) { p.put(place{seq: seq, ts: ts, said: text}) }

func (p *places) put(x place) {
	p.total++
	if len(p.begun) < begunPlaces {
		p.begun = append(p.begun, x.ts)
	}
	if len(p.first) < firstPlaces {
		p.first = append(p.first, x)
		return
	}
	if len(p.last) < lastPlaces {
		p.last = append(p.last, x)
		return
	}
	if p.over == nil {
		p.over = newOverTime(slices.Concat(p.first, p.last))
	}
	p.over.add(x.ts)
	copy(p.last, p.last[1:])
	p.last[lastPlaces-1] = x
}

// overTime counts what comes in equal spans of time, which double in length when there would be too many.
type overTime struct {
	begin, width int64 // nanoseconds
	counts       [64]int64
	used         int
}

func newOverTime(before []place) *overTime {
	o := &overTime{begin: before[0].ts, width: int64(time.Millisecond)}
	for _, x := range before {
		o.add(x.ts)
	}
	return o
}

func (o *overTime) add(ts int64) {
	i := max(0, ts-o.begin) / o.width
	for ; i >= int64(len(o.counts)); i /= 2 {
		for k := range len(o.counts) / 2 {
			o.counts[k] = o.counts[2*k] + o.counts[2*k+1]
		}
		clear(o.counts[len(o.counts)/2:])
		o.width, o.used = 2*o.width, (o.used+1)/2
	}
	o.counts[i]++
	o.used = max(o.used, int(i)+1)
}

// nth is the time of the n-th place, counted from 1: of later ones than are remembered, about.
func (p *places) nth(n int64) int64 {
	switch k := int64(len(p.begun)); {
	case k == 0:
		return 0
	case n <= k:
		return p.begun[max(n, 1)-1]
	case len(p.last) == 0 || n >= p.total:
		return max(p.begun[k-1], p.end())
	default: // as if the rest had come evenly
		from, to := p.begun[k-1], p.end()
		return from + int64(float64(to-from)*float64(n-k)/float64(p.total-k))
	}
}

// end is the time of the last place.
func (p *places) end() int64 {
	if n := len(p.last); n > 0 {
		return p.last[n-1].ts
	}
	return p.begun[len(p.begun)-1]
}

func (p *places) evidence() Evidence {
	e := Evidence{Total: p.total}
	if p.over != nil {
		e.Over, e.OverSeconds = slices.Clone(p.over.counts[:p.over.used]), float64(p.over.width)/1e9
		e.Changes = p.over.changes(p.last[len(p.last)-1].ts)
	}
	for _, list := range [2][]place{p.first, p.last} {
		for _, x := range list {
			e.Items = append(e.Items, Item{Seq: x.seq, Time: at(x.ts), What: x.text()})
		}
	}
	e.Period = PeriodOf(p.begun)
	return e
}

func (p place) text() string {
	if p.form == "" {
		return p.said
	}
	switch strings.Count(p.form, "%d") {
	case 0:
		return p.form
	case 1:
		return fmt.Sprintf(p.form, p.numbers[0])
	}
	return fmt.Sprintf(p.form, p.numbers[0], p.numbers[1])
}
