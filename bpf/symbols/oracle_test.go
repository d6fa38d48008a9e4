package symbols

import (
	"debug/dwarf"
	"debug/elf"
	"debug/gosym"
	"strings"
	"testing"

	"github.com/opreplay/opreplay/traces"
)

// The standard library's reader of the same table knows functions, files and lines, but no inlining: the
// line is that of the innermost frame, the function that of the outermost.
func TestAgreesWithGosym(t *testing.T) {
	for _, form := range forms {
		t.Run(form.name, func(t *testing.T) {
			path := build(t, form.flags...)
			b := open(t, path)
			oracle := gosymTable(t, path, b.tab.text)
			compared, inlined := 0, 0
			for i := range b.NumFuncs() {
				fn := b.Func(i)
				for pc := fn.Entry; pc < fn.End; pc += 13 {
					file, line, want := oracle.PCToLine(pc)
					if want == nil || line <= 0 {
						continue // padding between functions
					}
					got := b.Frames(pc)
					leaf, outer := got[0], got[len(got)-1]
					if leaf.File != file || int(leaf.Line) != line || outer.Function != Canonical(want.Name) {
						t.Fatalf("%#x: %v; gosym says %s at %s:%d", pc, got, want.Name, file, line)
					}
					compared++
					if len(got) > 1 {
						inlined++
					}
				}
			}
			if compared < 10000 || inlined < 1000 {
				t.Errorf("compared %d addresses, %d of them inlined: the test looks at the wrong place", compared, inlined)
			}
		})
	}
}

func gosymTable(t *testing.T, path string, text uint64) *gosym.Table {
	t.Helper()
	f, err := elf.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	s := f.Section(".gopclntab")
	if s == nil {
		s = f.Section(".data.rel.ro.gopclntab")
	}
	data, err := s.Data()
	if err != nil {
		t.Fatal(err)
	}
	tab, err := gosym.NewTable(nil, gosym.NewLineTable(data, text))
	if err != nil {
		t.Fatal(err)
	}
	return tab
}

// DWARF knows the chains of inlined calls, with the line of each call.
func TestAgreesWithDWARF(t *testing.T) {
	path := build(t)
	b := open(t, path)
	f, err := elf.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	d, err := f.DWARF()
	if err != nil {
		t.Fatal(err)
	}
	chains, deep := 0, 0
	for _, sub := range subprograms(t, d) {
		for _, r := range sub.ranges {
			for pc := r[0]; pc < r[1]; pc += 7 {
				want := sub.chain(pc)
				got := functions(b.Frames(pc))
				if len(got) == 0 || got[0] == "" {
					continue
				}
				if got, want := strings.Join(got, " < "), strings.Join(want, " < "); got != want {
					t.Fatalf("%#x: %s; DWARF says %s", pc, got, want)
				}
				chains++
				if len(want) > 2 {
					deep++
				}
			}
		}
	}
	if chains < 10000 || deep < 100 {
		t.Errorf("compared %d chains, %d of them deep: the test looks at the wrong place", chains, deep)
	}
}

func functions(frames []traces.Frame) (names []string) {
	for _, f := range frames {
		names = append(names, f.Function)
	}
	return names
}

// scope is a function, or a call inlined into one, in DWARF.
type scope struct {
	name   string
	ranges [][2]uint64
	inner  []*scope
}

func (s *scope) holds(pc uint64) bool {
	for _, r := range s.ranges {
		if pc >= r[0] && pc < r[1] {
			return true
		}
	}
	return false
}

// chain is the names of the scopes around PC, innermost first.
func (s *scope) chain(pc uint64) []string {
	for _, in := range s.inner {
		if in.holds(pc) {
			return append(in.chain(pc), s.name)
		}
	}
	return []string{s.name}
}

func subprograms(t *testing.T, d *dwarf.Data) (subs []*scope) {
	t.Helper()
	r := d.Reader()
	for {
		e, err := r.Next()
		if err != nil {
			t.Fatal(err)
		}
		if e == nil {
			return subs
		}
		if e.Tag == dwarf.TagCompileUnit {
			if lang, _ := e.Val(dwarf.AttrLanguage).(int64); lang != 0x16 { // DW_LANG_Go
				r.SkipChildren()
			}
			continue
		}
		if e.Tag == dwarf.TagSubprogram {
			if s := readScope(t, d, r, e); len(s.ranges) > 0 {
				subs = append(subs, s)
			}
			continue
		}
		r.SkipChildren()
	}
}

// readScope reads E and what lies in it. Lexical blocks are no scopes of their own.
func readScope(t *testing.T, d *dwarf.Data, r *dwarf.Reader, e *dwarf.Entry) *scope {
	t.Helper()
	s := &scope{name: nameOf(t, d, e)}
	ranges, err := d.Ranges(e)
	if err != nil {
		t.Fatal(err)
	}
	s.ranges = ranges
	for depth := 1; e.Children && depth > 0; {
		c, err := r.Next()
		if err != nil {
			t.Fatal(err)
		}
		switch {
		case c.Tag == 0:
			depth--
		case c.Tag == dwarf.TagInlinedSubroutine:
			s.inner = append(s.inner, readScope(t, d, r, c))
		case c.Tag == dwarf.TagLexDwarfBlock && c.Children:
			depth++
		default:
			r.SkipChildren()
		}
	}
	return s
}

// nameOf follows a concrete scope to the abstract one that has its name.
func nameOf(t *testing.T, d *dwarf.Data, e *dwarf.Entry) string {
	t.Helper()
	if name, ok := e.Val(dwarf.AttrName).(string); ok {
		return Canonical(name)
	}
	off, ok := e.Val(dwarf.AttrAbstractOrigin).(dwarf.Offset)
	if !ok {
		return ""
	}
	r := d.Reader()
	r.Seek(off)
	origin, err := r.Next()
	if err != nil {
		t.Fatal(err)
	}
	name, _ := origin.Val(dwarf.AttrName).(string)
	return Canonical(name)
}
