package jsontext

import "math/bits"

// Skip is the index behind the value that starts at or after s[i], -1 when there is none or it doesn't end.
// It balances brackets and strings and does not otherwise validate.
func Skip(s string, i int) int {
	i = blanks(s, i)
	if i >= len(s) {
		return -1
	}
	switch s[i] {
	case '"':
		return skipString(s, i)
	case '{', '[':
		return skipContainer(s, i)
	}
	return literal(s, i)
}

// ends marks the bytes that end a number or a literal, marks those that matter inside a container.
var ends, marks [256]bool

func init() {
	for _, c := range " \t\r\n,:}]\"{[" {
		ends[c] = true
	}
	for _, c := range "\"{}[]" {
		marks[c] = true
	}
}

func blanks(s string, i int) int {
	for i < len(s) && s[i] <= ' ' && (s[i] == ' ' || s[i] == '\n' || s[i] == '\t' || s[i] == '\r') {
		i++
	}
	return i
}

// Bytes are looked at eight at a time where there are as many: see Lamport, "Multiple byte processing with full-word
// instructions", CACM 18 (1975) 471–475. A byte of zero(x) has its high bit set where that byte of x is zero; bytes
// above the first such may be wrong.
const (
	ones  = 0x0101010101010101
	highs = 0x8080808080808080
)

func zero(x uint64) uint64 { return (x - ones) &^ x & highs }

// load is the eight bytes from s[i] on, the first in the lowest place.
func load(s string, i int) uint64 {
	s = s[i : i+8]
	return uint64(s[0]) | uint64(s[1])<<8 | uint64(s[2])<<16 | uint64(s[3])<<24 | uint64(s[4])<<32 | uint64(s[5])<<40 | uint64(s[6])<<48 | uint64(s[7])<<56
}

// skipString is the index behind the string that begins at s[i], -1 when it doesn't end.
func skipString(s string, i int) int {
	for j := i + 1; j < len(s); {
		if j+8 <= len(s) {
			x := load(s, j)
			found := zero(x^'"'*ones) | zero(x^'\\'*ones)
			if found == 0 {
				j += 8
				continue
			}
			j += bits.TrailingZeros64(found) >> 3
		}
		switch s[j] {
		case '"':
			return j + 1
		case '\\':
			j += 2 // past what is escaped
		default:
			j++
		}
	}
	return -1
}

// run is how many bytes from a[i] and b[j] on are equal.
func run(a string, i int, b string, j int) int {
	n := 0
	for ; i+n+8 <= len(a) && j+n+8 <= len(b); n += 8 {
		if x := load(a, i+n) ^ load(b, j+n); x != 0 {
			return n + bits.TrailingZeros64(x)>>3
		}
	}
	for i+n < len(a) && j+n < len(b) && a[i+n] == b[j+n] {
		n++
	}
	return n
}

// sound is the index behind the value at s[i], which has no blanks before it, when in all of it keys, values, commas and
// brackets are where they belong and no more than maxDepth containers are around each other, of which depth are around it;
// -1 otherwise. Whatever walks through a sound text meets no surprise.
func sound(s string, i, depth int) int {
	objects, n := uint64(0), 0 // which of the n open containers are objects, the innermost in the lowest place
	for i >= 0 && i < len(s) {
		switch c := s[i]; c {
		case '"':
			i = skipString(s, i)
		case '{', '[':
			if depth+n >= maxDepth {
				return -1
			}
			objects, n = objects<<1|uint64(c)>>5&1, n+1 // the brackets differ from the braces in that bit
			if i = blanks(s, i+1); i < len(s) && s[i] != c+2 {
				i = soundKey(s, i, objects)
				continue
			}
		default:
			i = literal(s, i)
		}
		if i < 0 {
			return -1
		}
		for ; n > 0; n-- { // behind a value
			if i = blanks(s, i); i >= len(s) || s[i] == ',' {
				break
			}
			if s[i] != ']'|byte(objects&1)<<5 {
				return -1
			}
			objects >>= 1
			i++
		}
		if n == 0 {
			return i
		}
		i = soundKey(s, blanks(s, i+1), objects)
	}
	return -1
}

// literal is the index behind the number or word at s[i], -1 if there is none.
func literal(s string, i int) int {
	begun := i
	for i < len(s) && !ends[s[i]] {
		i++
	}
	if i == begun {
		return -1
	}
	return i
}

// soundKey is the index of the next value in a container: in an object there must be a key first.
func soundKey(s string, i int, objects uint64) int {
	if objects&1 == 0 {
		return i
	}
	if i >= len(s) || s[i] != '"' {
		return -1
	}
	if i = skipString(s, i); i < 0 {
		return -1
	}
	if i = blanks(s, i); i >= len(s) || s[i] != ':' {
		return -1
	}
	return blanks(s, i+1)
}

// equal is run for texts that are likely to be equal for long.
func equal(a string, i int, b string, j int) int {
	const block = 128
	n := 0
	for i+n+block <= len(a) && j+n+block <= len(b) && a[i+n:i+n+block] == b[j+n:j+n+block] {
		n += block
	}
	return n + run(a, i+n, b, j+n)
}

func skipContainer(s string, i int) int {
	depth := 0
	for i < len(s) {
		c := s[i]
		if !marks[c] {
			i++
			continue
		}
		switch c {
		case '"':
			if i = skipString(s, i); i < 0 {
				return -1
			}
			continue
		case '{', '[':
			depth++
		default:
			if depth--; depth == 0 {
				return i + 1
			}
		}
		i++
	}
	return -1
}

// cursor walks the members of an object or the elements of an array.
type cursor struct {
	s  string
	i  int
	ok bool // false once the text was malformed
}

// open is a cursor behind the bracket that s must begin with.
func open(s string, bracket byte) cursor {
	i := blanks(s, 0)
	if i >= len(s) || s[i] != bracket {
		return cursor{}
	}
	return cursor{s: s, i: i + 1, ok: true}
}

// key reads the next member's key and moves to its value.
func (c *cursor) key() (string, bool) {
	if !c.item() {
		return "", false
	}
	if c.s[c.i] != '"' {
		c.ok = false
		return "", false
	}
	end := skipString(c.s, c.i)
	if end < 0 {
		c.ok = false
		return "", false
	}
	key := c.s[c.i+1 : end-1]
	end = blanks(c.s, end)
	if end >= len(c.s) || c.s[end] != ':' {
		c.ok = false
		return "", false
	}
	c.i = blanks(c.s, end+1)
	return key, true
}

// item moves to the next element, false at the closing bracket.
func (c *cursor) item() bool {
	if !c.ok {
		return false
	}
	c.i = blanks(c.s, c.i)
	if c.i < len(c.s) && c.s[c.i] == ',' {
		c.i = blanks(c.s, c.i+1)
	}
	if c.i >= len(c.s) {
		c.ok = false
		return false
	}
	return c.s[c.i] != '}' && c.s[c.i] != ']'
}

// close moves behind the closing bracket that the cursor is at.
func (c *cursor) close() {
	if c.ok = c.ok && c.i < len(c.s); c.ok {
		c.i++
	}
}

// value reads the value that the cursor is at.
func (c *cursor) value() (string, bool) {
	end := Skip(c.s, c.i)
	if end < 0 {
		c.ok = false
		return "", false
	}
	v := c.s[c.i:end]
	c.i = end
	return v, true
}

// Get is the value at the path of object keys, as written.
func Get(s string, path ...string) (string, bool) {
	for _, want := range path {
		c, found := open(s, '{'), false
		for !found {
			key, ok := c.key()
			if !ok {
				return "", false
			}
			v, ok := c.value()
			if !ok {
				return "", false
			}
			if key == want {
				s, found = v, true
			}
		}
	}
	return s, true
}

// Members calls f with each member of the object s until f returns false.
func Members(s string, f func(key, value string) bool) {
	c := open(s, '{')
	for {
		key, ok := c.key()
		if !ok {
			return
		}
		v, ok := c.value()
		if !ok || !f(key, v) {
			return
		}
	}
}

// Elements calls f with each element of the array s until f returns false.
func Elements(s string, f func(value string) bool) {
	c := open(s, '[')
	for c.item() {
		v, ok := c.value()
		if !ok || !f(v) {
			return
		}
	}
}

// Text is a string value without its quotes, not unescaped; other values are returned as written.
func Text(v string) string {
	if len(v) >= 2 && v[0] == '"' && v[len(v)-1] == '"' {
		return v[1 : len(v)-1]
	}
	return v
}

// Int is the decimal number that v is or, as resourceVersion has it, holds as a string; 0 otherwise.
func Int(v string) int64 {
	v = Text(v)
	if v == "" || len(v) > 18 {
		return 0
	}
	var n int64
	for i := range len(v) {
		if v[i] < '0' || v[i] > '9' {
			return 0
		}
		n = n*10 + int64(v[i]-'0')
	}
	return n
}
