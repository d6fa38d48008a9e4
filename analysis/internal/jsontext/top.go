package jsontext

// Top is an object's text with the places of its members at the top: apiVersion, kind, metadata, spec, status and what
// else a kind has. Who asks it several things has the text looked through once.
type Top struct {
	s     string
	spans [maxTop]span
	n     int // -1 where there are more, or the text is malformed: then each question looks through the text
}

// maxTop is how many members are kept; few kinds have more.
const maxTop = 8

type span struct{ key, keyEnd, value, valueEnd int32 }

// Split finds the members.
func Split(s string) (t Top) {
	t.s = s
	if len(s) > 1<<30 {
		t.n = -1
		return t
	}
	c := open(s, '{')
	if !c.ok {
		t.n = -1
		return t
	}
	for {
		key, more := c.key()
		if !more {
			if !c.ok {
				t.n = -1
			}
			return t
		}
		begun := c.i
		if _, ok := c.value(); !ok || t.n == maxTop {
			t.n = -1
			return t
		}
		t.add(key, begun, c.i)
	}
}

// add notes a member whose key stands before its value.
func (t *Top) add(key string, value, valueEnd int) {
	end := value - 1 // of the key: before the colon, blanks and the quote
	for t.s[end] != '"' {
		end--
	}
	t.spans[t.n] = span{int32(end - len(key)), int32(end), int32(value), int32(valueEnd)}
	t.n++
}

// Text is the whole object.
func (t *Top) Text() string { return t.s }

func (t *Top) member(i int) (key, value string) {
	x := t.spans[i]
	return t.s[x.key:x.keyEnd], t.s[x.value:x.valueEnd]
}

func (t *Top) find(key string) (string, bool) {
	for i := range t.n {
		if k, v := t.member(i); k == key {
			return v, true
		}
	}
	return "", false
}

// Get is the value at the path of object keys, as written.
func (t *Top) Get(path ...string) (string, bool) {
	if t.n < 0 || len(path) == 0 {
		return Get(t.s, path...)
	}
	v, ok := t.find(path[0])
	if !ok {
		return "", false
	}
	return Get(v, path[1:]...)
}

// Follow splits the next version of an object that has been split, and says what differs. What is as it was before is
// compared and not looked through.
func (d *Differ) Follow(a *Top, s string) (b Top, leaves []Leaf) {
	if a.n > 0 && len(s) <= 1<<30 && d.follow(a, s, &b) {
		return b, d.leaves
	}
	b = Split(s)
	return b, d.Tops(a, &b)
}

// follow is false where the members are others or in another order, and where a text is malformed.
func (d *Differ) follow(a *Top, s string, b *Top) bool {
	d.reset()
	b.s = s
	p := pair{a: cursor{s: a.s, ok: true}, b: open(s, '{')}
	for i := range a.n {
		key, ok := p.b.key()
		was, before := a.member(i)
		if !ok || key != was {
			return false
		}
		begun := p.b.i
		p.a.i, p.same = int(a.spans[i].value), 0
		switch {
		case hasValue(s, begun, before):
			p.b.i += len(before)
		case p.inObjects():
			d.inner(&p, key)
			if p.rest {
				b.same(a, i, begun)
				return true
			}
		default:
			after, _ := p.b.value()
			d.at(key, before, after)
		}
		if !p.a.ok || !p.b.ok {
			return false
		}
		b.add(key, begun, p.b.i)
	}
	_, more := p.b.key()
	return !more && p.b.ok
}

// same takes over the members of a from the i-th on: from within its value on, a is equal to its end.
func (t *Top) same(a *Top, i, begun int) {
	by := int32(len(t.s) - len(a.s))
	t.add(a.s[a.spans[i].key:a.spans[i].keyEnd], begun, int(a.spans[i].valueEnd+by))
	for _, x := range a.spans[i+1 : a.n] {
		t.spans[t.n] = span{x.key + by, x.keyEnd + by, x.value + by, x.valueEnd + by}
		t.n++
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
		stored, _ := whole.find(key)
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
		key, before := a.member(i)
		after, _ := b.find(key)
		d.at(key, before, after)
	}
	for i := range b.n {
		key, after := b.member(i)
		if _, had := a.find(key); !had {
			d.at(key, "", after)
		}
	}
	return d.leaves
}
