package report

import (
	"reflect"
	"strings"
)

// cleaned is a copy of a value in which every text is on one line and without control characters, so that nothing that
// a trace holds is obeyed by a terminal: a name can be anything that came over the wire.
func cleaned[T any](v *T) *T {
	out := reflect.New(reflect.TypeFor[T]())
	clean(out.Elem(), reflect.ValueOf(v).Elem())
	return out.Interface().(*T)
}

func clean(to, from reflect.Value) {
	switch from.Kind() {
	case reflect.String:
		to.SetString(Flat(from.String()))
	case reflect.Struct:
		to.Set(from) // unexported fields, such as those of a time
		for i := range from.NumField() {
			if from.Type().Field(i).IsExported() {
				clean(to.Field(i), from.Field(i))
			}
		}
	case reflect.Slice:
		if from.IsNil() {
			return
		}
		to.Set(reflect.MakeSlice(from.Type(), from.Len(), from.Len()))
		for i := range from.Len() {
			clean(to.Index(i), from.Index(i))
		}
	case reflect.Pointer:
		if !from.IsNil() {
			to.Set(reflect.New(from.Type().Elem()))
			clean(to.Elem(), from.Elem())
		}
	default:
		to.Set(from)
	}
}

// Flat puts a text on one line without control characters: neither a terminal nor a parser is to obey it. Characters
// that turn the direction of reading go too ("Trojan Source", Boucher and Anderson, USENIX Security 2023).
func Flat(s string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r == '\n' || r == '\r' || r == '\t':
			return ' '
		case r < 0x20 || r >= 0x7f && r < 0xa0 || r >= 0x202a && r <= 0x202e || r >= 0x2066 && r <= 0x2069: // C0, C1, bidi
			return '\uFFFD'
		}
		return r
	}, s)
}
