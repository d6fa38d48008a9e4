package jsontext

import "math"

// Top is an object's text with the places of its members at the top: apiVersion, kind, metadata, spec, status and what
// else a kind has. Who asks it several things has the text looked through once. Of metadata and status, which are asked
// for most, it keeps the places of their members too, and of managedFields those of each manager and time. There is one
// for each object that is known, so it is small: 256 bytes.
type Top struct {
	s       string
	spans   [maxTop]span
	marks   [maxMarks]mark
	entries [maxEntries]entry
	boxes   [2]box
	n       int8 // of the spans; -1 where there are more, or the text is malformed: then each question looks through the text
	entered int8 // how many entries managedFields has; 0 where their places are not kept
	odd     bool // the text breaks off or has brackets that don't match, or two members of one name at the top
}

// How many places are kept; few kinds have more members at the top. Where metadata and status have more, or managedFields
// has, their places are not kept.
const (
	maxTop     = 8
	maxMarks   = 24
	maxEntries = 8
)

// span is a member at the top.
type span struct{ key, value, end int32 }

// mark is a member of an object without blanks, so that it ends where the next key or the closing bracket shows. Places are
// counted from the beginning of the object.
type mark struct{ key, value uint16 }

// entry is an element of managedFields: the places of two values, 0 for none, counted from the beginning of metadata.
type entry struct{ manager, time uint16 }

// box is a member at the top whose own members are marked, from the first to before the last; there is none if last is 0.
type box struct {
	member      int8
	first, last uint8
}

// Split finds the members.
func Split(s string) (t Top) {
	t.s = s
	c := open(s, '{')
	if !c.ok || len(s) > 1<<30 {
		t.n = -1
		return t
	}
	for {
		key, more := c.key()
		if !more {
			if !c.ok {
				return Top{s: s, n: -1}
			}
			break
		}
		begun := c.i
		if t.n == maxTop || !t.member(&c, key) {
			return Top{s: s, n: -1}
		}
		t.spans[t.n] = span{int32(keyAt(s, begun) - len(key)), int32(begun), int32(c.i)}
		t.n++
	}
	if t.odd = t.odd || t.twice(); t.odd {
		t.unbox()
	}
	return t
}

// member moves behind the value of key, and marks what it holds.
func (t *Top) member(c *cursor, key string) bool {
	end := t.mark(key, int(t.n), c.i)
	if end < 0 {
		end = sound(c.s, c.i, 0)
	}
	if end < 0 {
		t.odd = true
		_, ok := c.value()
		return ok
	}
	c.i = end
	return true
}

// keyAt is the end of the key whose value is at s[i]: before the colon, blanks and the quote.
func keyAt(s string, i int) int {
	for i--; s[i] != '"'; {
		i--
	}
	return i
}

// twice is whether two members have one name.
func (t *Top) twice() bool {
	for i := range t.n {
		for j := range i {
			if t.key(j) == t.key(i) {
				return true
			}
		}
	}
	return false
}

// boxable is whether the members of the value at s[i] are marked, if there is room.
func boxable(key, s string, i int) bool {
	return (key == "metadata" || key == "status") && i < len(s) && s[i] == '{'
}

// mark marks the members of the value at s[begun], which key names and is the at-th at the top, and returns where it ends: -1
// when it isn't one of those that are boxed, or not of their form.
func (t *Top) mark(key string, at, begun int) int {
	i := 0
	if t.boxes[0].last > 0 {
		i = 1
	}
	if !boxable(key, t.s, begun) || t.boxes[i].last > 0 {
		return -1
	}
	x := box{member: int8(at), first: t.boxes[0].last, last: t.boxes[0].last}
	for p := begun + 1; x.last < maxMarks; {
		m, end := t.markable(begun, p)
		if end < 0 {
			break
		}
		t.marks[x.last] = m
		x.last++
		if t.s[end] == '}' {
			if key == "metadata" && !t.managed(x, begun) {
				break
			}
			t.boxes[i] = x
			return end + 1
		}
		p = end + 1
	}
	clear(t.marks[x.first:])
	return -1
}

// markable is the member at s[p] of the object at s[begun], and where its value ends: -1 if it is not of the usual form or
// too far away, or nothing follows it.
func (t *Top) markable(begun, p int) (m mark, end int) {
	s := t.s
	if p >= len(s) || s[p] != '"' {
		return m, -1
	}
	v := skipString(s, p) + 1
	if v < 1 || v >= len(s) || s[v-1] != ':' {
		return m, -1
	}
	end = sound(s, v, 1)
	if end < 0 || end >= len(s) || s[end] != ',' && s[end] != '}' || end-begun >= math.MaxUint16 {
		return m, -1
	}
	return mark{uint16(p + 1 - begun), uint16(v - begun)}, end
}

// managed notes the entries of managedFields in the metadata at s[begun]. It is false where there are two of that name.
func (t *Top) managed(x box, begun int) bool {
	there := false
	for _, m := range t.marks[x.first:x.last] {
		if t.s[begun+int(m.key):begun+int(m.value)-2] != "managedFields" {
			continue
		}
		if there {
			t.enter(nil)
			return false
		}
		there = true
		t.fields(begun, begun+int(m.value))
	}
	return true
}

// fields notes the entries of the managedFields at s[v], in the metadata at s[begun], and returns where they end: -1, with
// none noted, when they are too many or not of the usual form.
func (t *Top) fields(begun, v int) int {
	s := t.s
	var found [maxEntries]entry
	t.enter(nil)
	if v >= len(s) || s[v] != '[' {
		return -1
	}
	for n, i := 0, v+1; n < maxEntries && i < len(s) && s[i] == '{'; {
		x, end := entryAt(s, begun, i)
		if end < 0 || end >= len(s) || end-begun > math.MaxUint16 {
			return -1
		}
		found[n] = x
		n++
		switch s[end] {
		case ']':
			t.enter(found[:n])
			return end + 1
		case ',':
			i = end + 1
		default:
			return -1
		}
	}
	return -1
}

// entryAt is the entry at s[i], and where it ends: -1 if it is not of the usual form.
func entryAt(s string, begun, i int) (x entry, end int) {
	for i++; ; i++ {
		if i >= len(s) || s[i] != '"' {
			return x, -1
		}
		v := skipString(s, i) + 1
		if v < 1 || v >= len(s) || s[v-1] != ':' {
			return x, -1
		}
		switch key := s[i+1 : v-2]; {
		case key == "manager" && x.manager == 0:
			x.manager = uint16(v - begun)
		case key == "time" && x.time == 0:
			x.time = uint16(v - begun)
		}
		if i = sound(s, v, 3); i < 0 || i >= len(s) || s[i] != ',' && s[i] != '}' {
			return x, -1
		}
		if s[i] == '}' {
			return x, i + 1
		}
	}
}

// enter takes over what is known of managedFields.
func (t *Top) enter(known []entry) {
	clear(t.entries[copy(t.entries[:], known):])
	t.entered = int8(len(known))
}

// unbox forgets what is known of the members of metadata and status.
func (t *Top) unbox() {
	t.boxes, t.marks = [2]box{}, [maxMarks]mark{}
	t.enter(nil)
}

// rebox finds it anew.
func (t *Top) rebox() {
	t.unbox()
	for i := range t.n {
		t.mark(t.key(i), int(i), int(t.spans[i].value))
	}
}

// Move is that the text lies elsewhere in memory now.
func (t *Top) Move(text string) { t.s = text }

// Text is the whole object.
func (t *Top) Text() string { return t.s }

func (t *Top) key(i int8) string {
	x := t.spans[i]
	return t.s[x.key:keyAt(t.s, int(x.value))]
}

func (t *Top) value(i int8) string {
	x := t.spans[i]
	return t.s[x.value:x.end]
}

func (t *Top) find(key string) int8 {
	for i := range t.n {
		if t.key(i) == key {
			return i
		}
	}
	return -1
}

// boxOf is the box of the i-th member, nil if it has none.
func (t *Top) boxOf(i int8) *box {
	for k := range t.boxes {
		if x := &t.boxes[k]; x.last > 0 && x.member == i {
			return x
		}
	}
	return nil
}

// ends is where the k-th mark, in the box x, ends.
func (t *Top) ends(x *box, k uint8) int {
	if k+1 < x.last {
		return int(t.spans[x.member].value) + int(t.marks[k+1].key) - 2 // before a comma and a quote
	}
	return int(t.spans[x.member].end) - 1
}

// Get is the value at the path of object keys, as written.
func (t *Top) Get(path ...string) (string, bool) {
	if t.n < 0 || len(path) == 0 {
		return Get(t.s, path...)
	}
	i := t.find(path[0])
	if i < 0 {
		return "", false
	}
	if len(path) > 1 {
		if x := t.boxOf(i); x != nil {
			v, ok := t.within(x, path[1])
			if !ok {
				return "", false
			}
			return Get(v, path[2:]...)
		}
	}
	return Get(t.value(i), path[1:]...)
}

// within is the value of a member of a box.
func (t *Top) within(x *box, key string) (string, bool) {
	begun := int(t.spans[x.member].value)
	s := t.s[begun:t.spans[x.member].end]
	for k := x.first; k < x.last; k++ {
		m := t.marks[k]
		if int(m.value)-int(m.key) == len(key)+2 && s[m.key:m.value-2] == key {
			return s[m.value : t.ends(x, k)-begun], true
		}
	}
	return "", false
}

// LastManager is the manager of the newest entry of metadata.managedFields that isn't one of those whose writes are all
// known: the last writer, unless its write changed no field of its own; "" where the newest is one of those. Times have a
// grain of one second; of equal times the later entry counts, for the API server sorts them so.
func (t *Top) LastManager(known map[string]bool) string {
	last := last{known: known}
	if t.entered > 0 {
		s := t.s[t.spans[t.find("metadata")].value:]
		for _, x := range t.entries[:t.entered] {
			last.add(at(s, x.manager), at(s, x.time))
		}
		return last.name
	}
	fields, _ := t.Get("metadata", "managedFields")
	Elements(fields, func(entry string) bool {
		manager, _ := Get(entry, "manager")
		time, _ := Get(entry, "time")
		last.add(manager, time)
		return true
	})
	return last.name
}

// at is the value at a place that may be none.
func at(s string, i uint16) string {
	if i == 0 {
		return ""
	}
	return s[i:Skip(s, int(i))]
}

// last is the newest entry up to now.
type last struct {
	known      map[string]bool
	name, time string
}

func (l *last) add(manager, time string) {
	if time < l.time {
		return
	}
	switch m := Text(manager); {
	case !l.known[m]:
		l.time, l.name = time, m
	case time > l.time:
		l.time, l.name = time, ""
	}
}

// WithinTop is Within for a whole that has been split.
func (d *Differ) WithinTop(part string, whole *Top) []Leaf {
	if whole.n < 0 {
		return d.Within(part, whole.s)
	}
	d.within = true
	defer func() { d.within = false }()
	d.reset()
	Members(part, func(key, value string) bool {
		stored := ""
		if i := whole.find(key); i >= 0 {
			stored = whole.value(i)
		}
		d.at(key, value, stored)
		return true
	})
	return d.leaves
}

// Tops is Objects for objects that have been split.
func (d *Differ) Tops(a, b *Top) []Leaf {
	if a.n < 0 || b.n < 0 {
		return d.Objects(a.s, b.s)
	}
	d.reset()
	for i := range a.n {
		key, after := a.key(i), ""
		if j := b.find(key); j >= 0 {
			after = b.value(j)
		}
		d.at(key, a.value(i), after)
	}
	for i := range b.n {
		if key := b.key(i); a.find(key) < 0 {
			d.at(key, "", b.value(i))
		}
	}
	return d.leaves
}
