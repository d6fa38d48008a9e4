package analysis

import (
	"context"
	"encoding/json"
	"iter"
	"reflect"
	"testing"
	"unsafe"

	"github.com/opreplay/opreplay/traces"
)

// Rows are used up as soon as the analysis says so: what it finds must not hang on one that is, in any trace.
func TestNothingOfUsedRows(t *testing.T) {
	rows, overwritten := 0, 0
	for _, l := range corpus(t) {
		want, profile := judged(t, &l, each(l.rows), nil)
		u := &usedUp{}
		got, again := judged(t, &l, u.each(l.rows), u.done)
		if got != want {
			t.Errorf("%s:\n%s\nof rows that stay:\n%s", l.name, got, want)
		}
		if !reflect.DeepEqual(again.calls, profile.calls) || !reflect.DeepEqual(again.passes, profile.passes) || !reflect.DeepEqual(again.errors, profile.errors) {
			t.Errorf("%s: another profile", l.name)
		}
		rows, overwritten = rows+len(l.rows), overwritten+u.overwritten
	}
	if overwritten < rows/2 {
		t.Errorf("only %d of %d rows were used up", overwritten, rows)
	}
}

func judged(t *testing.T, l *labelled, rows iter.Seq2[traces.Record, error], done func(int64)) (string, *profile) {
	t.Helper()
	p := newProfile()
	r, err := Records(context.Background(), rows, l.manifest, l.name, Options{Detectors: append(All(), p), done: done})
	if err != nil {
		t.Fatal(l.name, err)
	}
	b, err := json.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	return string(b), p
}

// usedUp are rows with memory of their own, which is overwritten when they are done.
type usedUp struct {
	held        []heldRow
	overwritten int
}

type heldRow struct {
	row   traces.Record
	texts [][]byte
}

func (u *usedUp) each(rows []traces.Record) iter.Seq2[traces.Record, error] {
	return func(yield func(traces.Record, error) bool) {
		for _, r := range rows {
			c := heldRow{row: reflect.New(reflect.TypeOf(r).Elem()).Interface().(traces.Record)}
			c.copy(reflect.ValueOf(c.row).Elem(), reflect.ValueOf(r).Elem())
			u.held = append(u.held, c)
			if !yield(c.row, nil) {
				return
			}
		}
	}
}

// done overwrites the rows up to that seq.
func (u *usedUp) done(seq int64) {
	for len(u.held) > 0 && u.held[0].row.Header().Seq <= seq {
		for _, text := range u.held[0].texts {
			for i := range text {
				text[i] = 0xff
			}
		}
		v := reflect.ValueOf(u.held[0].row).Elem()
		v.SetZero()
		u.held = u.held[1:]
		u.overwritten++
	}
}

// copy makes to a copy of from whose texts lie in memory of their own.
func (c *heldRow) copy(to, from reflect.Value) {
	switch from.Kind() {
	case reflect.String:
		text := []byte(from.String())
		c.texts = append(c.texts, text)
		to.SetString(unsafe.String(unsafe.SliceData(text), len(text)))
	case reflect.Struct:
		for i := range from.NumField() {
			c.copy(to.Field(i), from.Field(i))
		}
	case reflect.Slice:
		to.Set(reflect.MakeSlice(from.Type(), from.Len(), from.Len()))
		for i := range from.Len() {
			c.copy(to.Index(i), from.Index(i))
		}
	default:
		to.Set(from)
	}
}
