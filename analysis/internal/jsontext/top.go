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
		end := begun - 1 // of the key: before the colon, blanks and the quote
		for s[end] != '"' {
			end--
		}
		t.spans[t.n] = span{int32(end - len(key)), int32(end), int32(begun), int32(c.i)}
		t.n++
	}
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
