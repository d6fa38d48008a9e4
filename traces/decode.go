package traces

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/parquet-go/parquet-go"
)

// selection is what a read wants of a row group.
type selection struct {
	columns        []string // nil means all
	omit           []string // none of these
	fromSeq, toSeq int64
	fromTS, toTS   int64
}

func (s *selection) column(name string) bool {
	top, _, _ := strings.Cut(name, ".")
	return (s.columns == nil || slices.Contains(s.columns, top)) && !slices.Contains(s.omit, top)
}

func (s *selection) row(seq, ts int64) bool {
	return seq >= s.fromSeq && seq <= s.toSeq && ts >= s.fromTS && ts <= s.toTS
}

// decode reads the rows of a row group that sel wants, in the order of the file. It reads column by
// column: a projection reads nothing of the others, and a text of a dictionary is made once.
func (s *spec[T, P]) decode(g parquet.RowGroup, sel *selection) ([]Record, error) {
	rows := newRows[T](int(g.NumRows()))
	// seq and ts first: they decide which rows are wanted, and texts of others are never made.
	for _, c := range s.columns {
		if c.name == columnSeq || c.name == columnTS {
			if err := readColumn(g, s.parquet, c, rows); err != nil {
				return nil, err
			}
		}
	}
	kept := make([]Record, 0, len(rows))
	for i, r := range rows {
		if h := P(r).Header(); sel.row(h.Seq, h.TS) {
			kept = append(kept, P(r))
		} else {
			rows[i] = nil
		}
	}
	if len(kept) == 0 {
		return nil, nil
	}
	for _, c := range s.columns {
		if c.name == columnSeq || c.name == columnTS || !sel.column(c.name) {
			continue
		}
		if err := readColumn(g, s.parquet, c, rows); err != nil {
			return nil, err
		}
	}
	return kept, nil
}

// together is how many rows are made at a time: who keeps one of them keeps as many.
const together = 16

// newRows makes n rows.
func newRows[T any](n int) []*T {
	rows := make([]*T, n)
	var some []T
	for i := range rows {
		if len(some) == 0 {
			some = make([]T, min(together, n-i))
		}
		rows[i], some = &some[0], some[1:]
	}
	return rows
}

// readColumn fills one column of rows; rows that are nil are passed over. A column that the file lacks
// (an older minor version wrote it) leaves zero values; one of another type is an error, for the
// Parquet library would convert it silently.
func readColumn[T any](g parquet.RowGroup, want *parquet.Schema, c column[T], rows []*T) (err error) {
	path := strings.Split(c.name, ".")
	leaf, ok := g.Schema().Lookup(path...)
	if !ok {
		if c.name == columnSeq || c.name == columnTS {
			return fmt.Errorf("column %s is missing", c.name)
		}
		return nil
	}
	wanted, _ := want.Lookup(path...)
	if have, want := leaf.Node.Type().String(), wanted.Node.Type().String(); have != want {
		return fmt.Errorf("column %s has type %s, and must have %s", c.name, have, want)
	}
	if c.list != (leaf.MaxRepetitionLevel == 1) || leaf.MaxRepetitionLevel > 1 {
		return fmt.Errorf("column %s is nested in another way than it must", c.name)
	}
	pages := g.ColumnChunks()[leaf.ColumnIndex].Pages()
	defer func() { err = errors.Join(err, pages.Close()) }()
	r := columnReader[T]{column: c, rows: rows, plain: leaf.MaxDefinitionLevel == 0, full: leaf.MaxDefinitionLevel}
	for {
		page, err := pages.ReadPage()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return fmt.Errorf("column %s: %w", c.name, err)
		}
		err = r.page(page)
		parquet.Release(page)
		if err != nil {
			return fmt.Errorf("column %s: %w", c.name, err)
		}
	}
	if r.next != len(rows) {
		return fmt.Errorf("column %s holds %d of %d rows", c.name, r.next, len(rows))
	}
	return nil
}

// columnReader puts the values of one column into its rows.
type columnReader[T any] struct {
	column[T]
	rows  []*T
	next  int  // rows begun
	plain bool // a value a row: neither nulls nor lists
	full  int  // definition level of a value that is there
	item  int  // elements of the row's list so far
	dict  parquet.Dictionary
	texts []string // of dict, made when first met
	empty int32    // the place of "" in dict, -1 before it is met
}

func (r *columnReader[T]) page(p parquet.Page) error {
	if !r.plain {
		return r.values(p)
	}
	n := int(p.NumValues())
	if r.next+n > len(r.rows) {
		return fmt.Errorf("more than %d values", len(r.rows))
	}
	rows := r.rows[r.next : r.next+n]
	r.next += n
	if d := p.Dictionary(); d != nil {
		return r.indexed(d, p, rows)
	}
	data := p.Data()
	switch r.at(new(T), 0).(type) {
	case *string:
		bytes, offsets := data.ByteArray()
		last := "" // as several watches are told of one version, whose rows lie side by side
		for i, row := range rows {
			text := bytes[offsets[i]:offsets[i+1]]
			if row == nil || len(text) == 0 {
				continue
			}
			if string(text) != last {
				last = string(text)
			}
			*r.at(row, 0).(*string) = last
		}
	case *int64:
		set[T, int64](r.at, rows, data.Int64())
	case *int32:
		set[T, int32](r.at, rows, data.Int32())
	case *float64:
		for i, v := range data.Double() { // −0.0 is no zero value, though it equals one
			if row := rows[i]; row != nil {
				*r.at(row, 0).(*float64) = v
			}
		}
	default: // packed bits
		return r.assign(p, rows)
	}
	return nil
}

// set puts values into rows, which are zero as they were made.
func set[T any, V comparable](at func(*T, int) any, rows []*T, values []V) {
	var zero V
	for i, row := range rows {
		if v := values[i]; row != nil && v != zero {
			*at(row, 0).(*V) = v
		}
	}
}

// indexed reads a page whose values are places in a dictionary.
func (r *columnReader[T]) indexed(d parquet.Dictionary, p parquet.Page, rows []*T) error {
	if _, ok := r.at(new(T), 0).(*string); !ok {
		return r.assign(p, rows)
	}
	if r.dict != d {
		r.dict, r.texts, r.empty = d, make([]string, d.Len()), -1
	}
	data := p.Data()
	for i, index := range data.Int32()[:len(rows)] {
		if rows[i] == nil || index == r.empty {
			continue
		}
		t := &r.texts[index]
		if *t == "" {
			if *t = string(d.Index(index).ByteArray()); *t == "" {
				r.empty = index
				continue
			}
		}
		*r.at(rows[i], 0).(*string) = *t
	}
	return nil
}

// assign reads a page with a value a row, of any kind.
func (r *columnReader[T]) assign(p parquet.Page, rows []*T) error {
	i := 0
	return eachValue(p, func(v parquet.Value) error {
		if i == len(rows) {
			return errors.New("more values than the page says")
		}
		if rows[i] != nil {
			put(r.at(rows[i], 0), v)
		}
		i++
		return nil
	})
}

// values reads a page with lists or nulls, which another writer's file may have.
func (r *columnReader[T]) values(p parquet.Page) error {
	return eachValue(p, func(v parquet.Value) error {
		if v.RepetitionLevel() == 0 {
			r.next++
			r.item = 0
		} else {
			r.item++
		}
		if r.next == 0 || r.next > len(r.rows) {
			return fmt.Errorf("values for more than %d rows", len(r.rows))
		}
		if row := r.rows[r.next-1]; row != nil && v.DefinitionLevel() == r.full {
			put(r.at(row, r.item), v)
		}
		return nil
	})
}

func put(at any, v parquet.Value) {
	switch p := at.(type) {
	case *string:
		*p = string(v.ByteArray())
	case *int64:
		*p = v.Int64()
	case *int32:
		*p = v.Int32()
	case *float64:
		*p = v.Double()
	case *bool:
		*p = v.Boolean()
	}
}

func eachValue(p parquet.Page, f func(parquet.Value) error) error {
	var buf [256]parquet.Value
	for values := p.Values(); ; {
		n, err := values.ReadValues(buf[:])
		for _, v := range buf[:n] {
			if err := f(v); err != nil {
				return err
			}
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if n == 0 {
			return io.ErrNoProgress
		}
	}
}
