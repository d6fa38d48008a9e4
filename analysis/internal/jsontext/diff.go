package jsontext

import (
	"hash/maphash"
	"slices"
	"strconv"
	"strings"
)

// Kind is what a difference means.
type Kind uint8

// The kinds of difference, from those that mean something to those that mean nothing.
const (
	// Value is a difference that means something.
	Value Kind = iota
	// Time: both are points in time.
	Time
	// Order: one list with the same elements in another order.
	Order
	// Form: both are empty, in another way (absent, null, "", [], {}), or one number written in two ways.
	Form
)

// String implements fmt.Stringer.
func (k Kind) String() string { return [...]string{"value", "time", "order", "form"}[k] }

// Leaf is one smallest difference between two values.
type Leaf struct {
	// Path is where, e.g. status.conditions[Ready].reason: an element of a list of named things is
	// addressed by its name, any other by its index.
	Path string
	// Pattern is Path with [*] for every element.
	Pattern string
	Kind    Kind
	// Before and After are the values as written, "" for absent.
	Before, After string
}

// maxDepth bounds the recursion: deeper values are compared as a whole. Kubernetes objects stay under 30.
const maxDepth = 64

// Differ compares objects. It keeps its memory from one comparison to the next; the zero value is ready.
type Differ struct {
	path   []segment
	leaves []Leaf
	member []member
	elems  []string
	names  []string
	paths  map[uint64]*paths
	buf    []byte
	within bool // what the first object lacks is no difference
}

type segment struct {
	name    string
	element bool
}

type member struct{ key, value string }

// paths are the texts of one path.
type paths struct {
	segments      []segment
	path, pattern string
}

// Objects is what differs between two versions of a Kubernetes object. What changes with every write is
// left out: metadata.resourceVersion, generation, managedFields and selfLink. The result is valid until the
// next call.
func (d *Differ) Objects(before, after string) []Leaf {
	d.reset()
	if before != after {
		d.diff(before, after)
	}
	return d.leaves
}

// Within is what of part, an object that says only what is meant, stands otherwise in whole.
func (d *Differ) Within(part, whole string) []Leaf {
	d.within = true
	defer func() { d.within = false }()
	return d.Objects(part, whole)
}

// Values is what differs between two values that are found at the path of keys.
func (d *Differ) Values(before, after string, path ...string) []Leaf {
	d.reset()
	for _, key := range path {
		d.path = append(d.path, segment{name: key})
	}
	if before != after {
		d.diff(before, after)
	}
	return d.leaves
}

func (d *Differ) reset() {
	d.path, d.member, d.elems, d.names = d.path[:0], d.member[:0], d.elems[:0], d.names[:0]
	clear(d.leaves) // don't keep the bodies of the last comparison alive
	d.leaves = d.leaves[:0]
}

func (d *Differ) diff(a, b string) {
	x, y := against(a, b), against(b, a)
	if len(d.path) < maxDepth && x != "" && y != "" && x[0] == y[0] {
		before := len(d.leaves)
		switch {
		case x[0] == '{':
			d.objects(x, y)
		case x[0] == '[':
			d.arrays(x, y)
		default:
			d.leaf(a, b)
		}
		if len(d.leaves) > before || (a != "" && b != "" && a[0] == b[0]) {
			return
		}
	}
	d.leaf(a, b)
}

// against is what to compare other with: v, or the empty container for an absent one, so that each field that
// comes or goes with its parent is a difference of its own.
func against(v, other string) string {
	if (v == "" || v == "null") && other != "" {
		switch other[0] {
		case '{':
			return "{}"
		case '[':
			return "[]"
		}
	}
	return v
}

// objects compares two objects.
func (d *Differ) objects(a, b string) {
	p := pair{a: open(a, '{'), b: open(b, '{')}
	d.walk(&p)
}

// pair is where two texts are walked side by side. They are known to be equal from here on up to the index same in a.
type pair struct {
	a, b cursor
	same int
}

// look says up to where in a the texts are equal from here on.
func (p *pair) look() int {
	if p.same <= p.a.i {
		p.same = p.a.i + run(p.a.s, p.a.i, p.b.s, p.b.i)
	}
	return p.same
}

// long is from how many equal bytes on two containers are likely to be equal as a whole, so that it pays to look for the
// end of one of them before they are walked through.
const long = 128

// walk walks two objects side by side for as long as their keys come in the same order, which is nearly always: an
// equal value in b then costs a comparison rather than a scan, and what is equal up to the end costs no more than that.
// It ends at the closing brackets, or with cursors that are not ok where the rest of the texts is equal.
func (d *Differ) walk(p *pair) {
	for p.a.ok && p.b.ok {
		if same := p.look(); same == len(p.a.s) && p.b.i+same-p.a.i == len(p.b.s) {
			p.a.ok, p.b.ok = false, false
			return
		}
		begun := *p
		ka, oka := p.a.key()
		kb, okb := p.b.key()
		if !oka || !okb || ka != kb {
			if oka || okb {
				*p = begun
				d.unordered(&p.a, &p.b)
			}
			return
		}
		d.values(p, ka)
	}
}

// values compares the values of one key that both cursors are at, and moves behind them.
func (d *Differ) values(p *pair, key string) {
	if !d.within && p.inObjects() && p.same-p.a.i < long && len(d.path) < maxDepth-1 && !d.skips(key) {
		d.inner(p, key) // they differ early on: they are walked through at once
		return
	}
	va, ok := p.a.value()
	if !ok {
		return
	}
	if p.same > p.a.i || hasValue(p.b.s, p.b.i, va) {
		p.b.i += len(va)
		return
	}
	if vb, ok := p.b.value(); ok {
		d.at(key, va, vb)
	}
}

// inner compares the two objects that both cursors are at.
func (d *Differ) inner(p *pair, key string) {
	p.a.i, p.b.i = p.a.i+1, p.b.i+1
	d.path = append(d.path, segment{name: key})
	d.walk(p)
	d.path = d.path[:len(d.path)-1]
	p.a.close()
	p.b.close()
}

func (p *pair) inObjects() bool {
	return p.a.i < len(p.a.s) && p.b.i < len(p.b.s) && p.a.s[p.a.i] == '{' && p.b.s[p.b.i] == '{'
}

// hasValue is whether b has exactly the value v at i, and not a longer number that begins like it.
func hasValue(b string, i int, v string) bool {
	end := i + len(v)
	return end <= len(b) && b[i:end] == v && (end == len(b) || ends[b[end]])
}

// unordered compares the rest of two objects by key.
func (d *Differ) unordered(a, b *cursor) {
	mark := len(d.member)
	d.collect(a)
	if d.within && len(d.member)-mark <= few {
		for i := mark; i < len(d.member); i++ {
			other, _ := b.lookup(d.member[i].key)
			d.at(d.member[i].key, d.member[i].value, other)
		}
		d.member = d.member[:mark]
		return
	}
	split := len(d.member)
	d.collect(b)
	end := len(d.member)
	for i := mark; i < split; i++ {
		key, other := d.member[i].key, ""
		if j := d.find(split, end, key); j >= 0 {
			other = d.member[j].value
		}
		d.at(key, d.member[i].value, other)
	}
	for i := split; i < end; i++ {
		if d.find(mark, split, d.member[i].key) < 0 {
			d.at(d.member[i].key, "", d.member[i].value)
		}
	}
	d.member = d.member[:mark]
}

// few is up to how many members are looked up one by one: they are found sooner than all others are collected.
const few = 6

// lookup is the value of a key from the cursor on.
func (c cursor) lookup(key string) (string, bool) {
	for {
		k, ok := c.key()
		if !ok {
			return "", false
		}
		v, ok := c.value()
		if !ok || k == key {
			return v, ok
		}
	}
}

func (d *Differ) collect(c *cursor) {
	for {
		key, ok := c.key()
		if !ok {
			return
		}
		v, ok := c.value()
		if !ok {
			return
		}
		d.member = append(d.member, member{key, v})
	}
}

func (d *Differ) find(from, to int, key string) int {
	for i := from; i < to; i++ {
		if d.member[i].key == key {
			return i
		}
	}
	return -1
}

func (d *Differ) at(key, a, b string) {
	if a == b || a == "" && d.within || d.skips(key) {
		return
	}
	d.path = append(d.path, segment{name: key})
	d.diff(a, b)
	d.path = d.path[:len(d.path)-1]
}

// skips is whether a difference at the key counts for nothing.
func (d *Differ) skips(key string) bool {
	return len(d.path) == 1 && d.path[0].name == "metadata" && restless(key)
}

// restless are the metadata that the server changes by itself with a write.
func restless(key string) bool {
	switch key {
	case "resourceVersion", "managedFields", "generation", "selfLink":
		return true
	}
	return false
}

func (d *Differ) arrays(a, b string) {
	mark := len(d.elems)
	Elements(a, func(v string) bool { d.elems = append(d.elems, v); return true })
	split := len(d.elems)
	d.alike(b, mark, split)
	va, vb := d.elems[mark:split:split], d.elems[split:len(d.elems):len(d.elems)]
	switch names := len(d.names); {
	case d.named(va, vb):
		d.byName(va, vb, d.names[names:names+len(va)], d.names[names+len(va):])
		d.names = d.names[:names]
	case sameElements(va, vb):
		d.emit(Leaf{Kind: Order, Before: a, After: b})
	case len(va) == len(vb):
		for i := range va {
			d.element(strconv.Itoa(i), va[i], vb[i])
		}
	default:
		d.leaf(a, b)
	}
	d.elems = d.elems[:mark]
}

// alike appends the elements of b, of which most are like those of the other array, from mark to split.
func (d *Differ) alike(b string, mark, split int) {
	c := open(b, '[')
	for i := mark; c.item(); i++ {
		if i < split && hasValue(b, c.i, d.elems[i]) {
			d.elems = append(d.elems, d.elems[i])
			c.i += len(d.elems[i])
			continue
		}
		v, ok := c.value()
		if !ok {
			return
		}
		d.elems = append(d.elems, v)
	}
}

// nameKeys are the fields by which elements of a list are told apart, in the order in which they are
// tried. The API declares them as listMapKeys; these cover conditions, containers, ports, volumes,
// owners and the lists that people make of their own.
var nameKeys = [...]string{"type", "name", "key", "uid", "id"}

// named finds the field that names each element of both lists uniquely and appends the names to d.names.
func (d *Differ) named(a, b []string) bool {
	if len(a)+len(b) == 0 || len(a) > 512 || len(b) > 512 {
		return false
	}
	mark := len(d.names)
	for _, key := range nameKeys {
		if d.namesBy(key, a, nil, mark) && d.namesBy(key, b, a, mark) && unique(d.names[mark:mark+len(a)]) && unique(d.names[mark+len(a):]) {
			return true
		}
		d.names = d.names[:mark]
	}
	return false
}

// namesBy appends the names of elements to d.names. Those that are like the element of the other list at the same place,
// whose names are there from mark on, have the name of that.
func (d *Differ) namesBy(key string, elems, other []string, mark int) bool {
	for i, e := range elems {
		if i < len(other) && other[i] == e {
			d.names = append(d.names, d.names[mark+i])
			continue
		}
		v, ok := Get(e, key)
		if !ok || v[0] != '"' {
			return false
		}
		d.names = append(d.names, Text(v))
	}
	return true
}

func unique(names []string) bool {
	if len(names) > 16 {
		sorted := slices.Clone(names)
		slices.Sort(sorted)
		return len(slices.Compact(sorted)) == len(names)
	}
	for i, n := range names {
		if slices.Contains(names[:i], n) {
			return false
		}
	}
	return true
}

func (d *Differ) byName(a, b, na, nb []string) {
	before := len(d.leaves)
	for i, name := range na {
		other := ""
		if j := slices.Index(nb, name); j >= 0 {
			other = b[j]
		}
		d.element(name, a[i], other)
	}
	for j, name := range nb {
		if !slices.Contains(na, name) {
			d.element(name, "", b[j])
		}
	}
	if len(d.leaves) == before && !slices.Equal(na, nb) {
		d.emit(Leaf{Kind: Order, Before: strings.Join(na, ","), After: strings.Join(nb, ",")})
	}
}

func (d *Differ) element(name, a, b string) {
	if a == b || a == "" && d.within {
		return
	}
	d.path = append(d.path, segment{name: name, element: true})
	if a == "" || b == "" {
		d.leaf(a, b) // an element comes or goes as a whole
	} else {
		d.diff(a, b)
	}
	d.path = d.path[:len(d.path)-1]
}

func sameElements(a, b []string) bool {
	if len(a) != len(b) || len(a) < 2 {
		return false
	}
	a, b = slices.Clone(a), slices.Clone(b)
	slices.Sort(a)
	slices.Sort(b)
	return slices.Equal(a, b)
}

func (d *Differ) leaf(a, b string) {
	l := Leaf{Before: a, After: b}
	switch {
	case empty(a) && empty(b), sameNumber(a, b):
		l.Kind = Form
	case isTime(a, d.last()) && isTime(b, d.last()):
		l.Kind = Time
	}
	d.emit(l)
}

func (d *Differ) last() string {
	if len(d.path) == 0 {
		return ""
	}
	return d.path[len(d.path)-1].name
}

var seed = maphash.MakeSeed()

// emit appends the leaf with its path. Objects differ in the same few places over and over: the texts of
// paths are kept by their hash.
func (d *Differ) emit(l Leaf) {
	h := uint64(len(d.path))
	for _, s := range d.path {
		h = h*31 + maphash.String(seed, s.name)
		if s.element {
			h++
		}
	}
	p := d.paths[h]
	if p == nil || !slices.Equal(d.path, p.segments) {
		p = d.texts()
		if d.paths == nil || len(d.paths) >= 4096 {
			d.paths = map[uint64]*paths{}
		}
		d.paths[h] = p
	}
	l.Path, l.Pattern = p.path, p.pattern
	d.leaves = append(d.leaves, l)
}

// texts are those of the path that the differ is at, with memory of their own.
func (d *Differ) texts() *paths {
	p := &paths{}
	p.path = string(d.write(false))
	p.pattern = string(d.write(true))
	for _, s := range d.path {
		p.segments = append(p.segments, segment{strings.Clone(s.name), s.element})
	}
	return p
}

func (d *Differ) write(pattern bool) []byte {
	d.buf = d.buf[:0]
	for i, s := range d.path {
		switch {
		case s.element && pattern:
			d.buf = append(d.buf, "[*]"...)
		case s.element:
			d.buf = append(append(append(d.buf, '['), s.name...), ']')
		case strings.ContainsAny(s.name, "./[]"):
			d.buf = append(append(append(d.buf, "['"...), s.name...), "']"...)
		default:
			if i > 0 {
				d.buf = append(d.buf, '.')
			}
			d.buf = append(d.buf, s.name...)
		}
	}
	return d.buf
}

func empty(v string) bool {
	switch v {
	case "", "null", `""`, "[]", "{}":
		return true
	}
	return false
}

func sameNumber(a, b string) bool {
	if !isNumber(a) || !isNumber(b) || plain(a) && plain(b) {
		return false
	}
	x, errX := strconv.ParseFloat(a, 64)
	y, errY := strconv.ParseFloat(b, 64)
	return errX == nil && errY == nil && x == y && max(x, -x) < 1<<53
}

// plain is whether v is a whole number written in the only way that there is without a sign, a point or an exponent.
func plain(v string) bool {
	for i := range len(v) {
		if v[i] < '0' || v[i] > '9' {
			return false
		}
	}
	return v[0] != '0' || v == "0"
}

func isNumber(v string) bool { return v != "" && (v[0] == '-' || (v[0] >= '0' && v[0] <= '9')) }

// isTime is whether v is a time: an RFC 3339 text, or a number or quoted number under a name that says so.
func isTime(v, field string) bool {
	if len(v) >= 22 && v[0] == '"' { // "2006-01-02T15:04:05Z" with its quotes
		t := v[1 : len(v)-1]
		if t[4] == '-' && t[7] == '-' && (t[10] == 'T' || t[10] == ' ') && t[13] == ':' && t[16] == ':' && digits(t[:4]) && digits(t[17:19]) {
			return true
		}
	}
	t := Text(v)
	return len(t) >= 9 && digits(t) && TimeName(field)
}

// TimeName is whether a field of this name holds a time by its convention: lastTransitionTime, updatedAt.
func TimeName(field string) bool {
	for _, end := range [...]string{"Time", "Timestamp", "time", "timestamp", "At"} {
		if strings.HasSuffix(field, end) {
			return true
		}
	}
	return false
}

func digits(s string) bool {
	for i := range len(s) {
		if (s[i] < '0' || s[i] > '9') && s[i] != '.' {
			return false
		}
	}
	return s != ""
}
