package jsontext

import "math"

// Follow splits the next version of an object that has been split, and says what differs. What both have alike is compared
// and not looked through: it costs what it takes to find the differences, and to read the values in which they are.
func (d *Differ) Follow(a *Top, s string) (b Top, leaves []Leaf) {
	if a.n > 0 && !a.odd && len(s) <= 1<<30 && d.follow(a, s, &b) {
		return b, d.leaves
	}
	b = Split(s)
	return b, d.Tops(a, &b)
}

// trail is where a text is compared with the one before it. A reader goes through a text from the left and knows, at any
// place, no more than what it has read. So where the texts were alike, or where they differed in a value that a reader has
// gone past in both, the places of a are those of b, moved.
type trail struct {
	a, b string
	i    int // up to here in a has been gone, and
	by   int // b is as far as that and this
	same int // up to here in a the texts are known to be equal from i on
}

// look is where in a the next difference is.
func (f *trail) look() int {
	if f.same <= f.i {
		f.same = f.i + equal(f.a, f.i, f.b, f.i+f.by)
	}
	return f.same
}

// beyond is whether the next difference p is behind the value of a from v to end. A number that ends where the texts differ
// may be longer in b.
func (f *trail) beyond(p, v, end int) bool {
	return p > end || p == end && (f.a[v] == '"' || f.a[v] == '{' || f.a[v] == '[')
}

// follow is false where the members at the top are others or in another order, and where the new text is odd.
func (d *Differ) follow(a *Top, s string, b *Top) bool {
	d.reset()
	*b = *a
	b.s = s
	f := trail{a: a.s, b: s}
	stale := false // the marks of b
	for i := range a.n {
		x := a.spans[i]
		p := f.look()
		if f.beyond(p, int(x.value), int(x.end)) {
			continue
		}
		if p < int(x.value) {
			return false
		}
		key, by, marked := a.key(i), f.by, a.boxOf(i)
		if marked == nil || !d.box(&f, a, &boxed{marked, b, int(x.value), int(x.end), int(x.value) + by}, key) {
			stale = stale || marked != nil || boxable(key, s, int(x.value)+by)
			if !d.value(&f, key, int(x.value), int(x.end)) {
				return false
			}
		}
		if f.by != by {
			b.move(i, int32(f.by-by))
		}
	}
	if p := f.look(); p < len(f.a) || p+f.by < len(f.b) {
		return false
	}
	if stale {
		b.rebox()
	}
	return true
}

// move moves what follows the beginning of the i-th value.
func (t *Top) move(i int8, by int32) {
	t.spans[i].end += by
	for i++; i < t.n; i++ {
		x := &t.spans[i]
		x.key, x.value, x.end = x.key+by, x.value+by, x.end+by
	}
}

// boxed are two objects whose members are marked: that of a begins and ends there, that of b begins at from.
type boxed struct {
	*box
	b                *Top // whose marks are moved
	begun, end, from int
}

// fits is whether the places of b can be marked.
func (x *boxed) fits(f *trail) bool { return x.end+f.by-x.from <= math.MaxUint16 }

// box compares the members of the values of key, which are marked. It is false where they are others or in another order.
func (d *Differ) box(f *trail, a *Top, x *boxed, key string) bool {
	was, leaves := *f, len(d.leaves)
	d.path = append(d.path, segment{name: key})
	ok := d.marked(f, a, x)
	d.path = d.path[:len(d.path)-1]
	if !ok {
		*f = was
		d.take(leaves)
	}
	return ok
}

// take takes back all leaves but the first n.
func (d *Differ) take(n int) {
	clear(d.leaves[n:])
	d.leaves = d.leaves[:n]
}

// marked does that, at the path of key. The marks say at once in which value the next difference is.
func (d *Differ) marked(f *trail, a *Top, x *boxed) bool {
	for k := x.first; f.look() < x.end; k++ {
		p := f.look()
		for k+1 < x.last && x.begun+int(a.marks[k+1].value) <= p {
			k++
		}
		if k == x.last {
			return false
		}
		v, e := x.begun+int(a.marks[k].value), a.ends(x.box, k)
		if p < v || f.beyond(p, v, e) {
			return false // the difference is between two values
		}
		by, key := f.by, f.a[x.begun+int(a.marks[k].key):v-2]
		managed := key == "managedFields" && d.path[0].name == "metadata"
		if managed {
			if !x.managed(f, v, e) {
				return false
			}
		} else if !d.value(f, key, v, e) {
			return false
		}
		if f.by != by {
			if !x.fits(f) {
				return false
			}
			x.move(k, f.by-by, managed)
		}
	}
	f.i = x.end
	return true
}

// move moves what follows the k-th value.
func (x *boxed) move(k uint8, by int, managed bool) {
	behind := x.b.marks[k].value
	for k++; k < x.last; k++ {
		m := &x.b.marks[k]
		m.key, m.value = m.key+uint16(by), m.value+uint16(by)
	}
	if !managed && x.member == x.b.find("metadata") {
		x.moveEntries(behind, by)
	}
}

func (x *boxed) moveEntries(behind uint16, by int) {
	for i := range x.b.entries[:x.b.entered] {
		for _, p := range [...]*uint16{&x.b.entries[i].manager, &x.b.entries[i].time} {
			if *p > behind {
				*p += uint16(by)
			}
		}
	}
}

// managed goes past managedFields, which are no difference; mostly no more than a time in them has changed.
func (x *boxed) managed(f *trail, v, e int) bool {
	was := *f
	for f.look() < e {
		if !x.stamp(f) {
			*f = was
			w := v + f.by
			end := x.b.fields(x.from, w)
			if end < 0 {
				end = sound(f.b, w, 1)
			}
			if end < 0 {
				return false
			}
			f.i, f.by, f.same = e, end-e, e
			return true
		}
	}
	f.i = e
	return true
}

// stamp goes past the manager or the time in which the texts differ next. The places of b are right up to there: it is the
// last one before, unless that is a value that has been gone past.
func (x *boxed) stamp(f *trail) bool {
	here := f.look() + f.by - x.from
	begun := 0
	for _, y := range x.b.entries[:x.b.entered] {
		if m := int(y.manager); m < here {
			begun = max(begun, m)
		}
		if m := int(y.time); m < here {
			begun = max(begun, m)
		}
	}
	w := x.from + begun
	if begun == 0 || w < f.i+f.by || f.b[w] != '"' {
		return false
	}
	end, was := skipString(f.b, w), skipString(f.a, w-f.by)
	if end < 0 || f.look() >= was {
		return false
	}
	by := f.by
	f.i, f.by, f.same = was, end-was, was
	if f.by != by {
		if !x.fits(f) {
			return false
		}
		x.moveEntries(uint16(begun), f.by-by)
	}
	return true
}

// value compares the values of key, in which the texts differ next: that of a is at v and ends at e.
func (d *Differ) value(f *trail, key string, v, e int) bool {
	if f.look() > v && f.a[v] == '{' && !d.skips(key) {
		was, leaves := *f, len(d.leaves)
		c := cursor{s: f.a, i: v + 1, ok: true}
		if d.inside(f, &c, key, e) != other {
			f.i = e
			return true
		}
		*f = was
		d.take(leaves)
	}
	return d.whole(f, key, v, e)
}

// whole compares them as if nothing were known of them.
func (d *Differ) whole(f *trail, key string, v, e int) bool {
	w := v + f.by
	end := sound(f.b, w, len(d.path))
	if end < 0 {
		return false
	}
	d.at(key, f.a[v:e], f.b[w:end])
	f.i, f.by, f.same = e, end-e, e
	return true
}

// outcome is how the comparison of two objects ended.
type outcome uint8

const (
	other  outcome = iota // they have other members, or in another order
	closed                // behind the objects
	rest                  // the texts are equal from here to the end that is known of what holds the objects
)

// inside compares the members of the objects that are the values of key, of which that of a is at the cursor, and ends
// before e. It reads a up to the last difference, and of b the values that differ.
func (d *Differ) inside(f *trail, c *cursor, key string, e int) outcome {
	d.path = append(d.path, segment{name: key})
	how := closed
	for how == closed {
		p := f.look()
		if p >= e {
			how = rest
			break
		}
		name, ok := c.key()
		if p < c.i || !ok && (!c.ok || p == c.i) {
			how = other
			break
		}
		if !ok {
			c.i++
			break
		}
		how = d.next(f, c, name, e)
	}
	d.path = d.path[:len(d.path)-1]
	return how
}

// next compares the values of name, of which that of a is at the cursor.
func (d *Differ) next(f *trail, c *cursor, name string, e int) outcome {
	p, v := f.look(), c.i
	if c.s[v] == '{' || c.s[v] == '[' {
		if end := skipContainer(c.s[:p], v); end >= 0 {
			c.i = end // it ends before the difference
			return closed
		}
		if c.s[v] == '{' && p > v && len(d.path) < maxDepth-1 && !d.skips(name) {
			was, here, leaves := *f, *c, len(d.leaves)
			c.i++
			if how := d.inside(f, c, name, e); how != other {
				return how
			}
			*f, *c = was, here
			d.take(leaves)
		}
	}
	if _, ok := c.value(); !ok {
		return other
	}
	if !f.beyond(p, v, c.i) && !d.whole(f, name, v, c.i) {
		return other
	}
	return closed
}
