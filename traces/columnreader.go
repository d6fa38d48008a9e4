package traces

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"unsafe"

	"github.com/parquet-go/parquet-go"
)

// readColumn fills one column of rows; rows that are nil are passed over. A column that the file lacks
// (an older minor version wrote it) leaves zero values; one of another type is an error, for the
// Parquet library would convert it silently.
func readColumn[T any](g parquet.RowGroup, want *parquet.Schema, c column[T], rows []*T, r *reading, h *held) (err error) {
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
	reader := columnReader[T]{
		column: c, rows: rows, plain: leaf.MaxDefinitionLevel == 0, full: leaf.MaxDefinitionLevel,
		reading: r, held: h,
	}
	if !c.list {
		reader.kind, reader.offset = placeOf(c)
	}
	for {
		page, err := pages.ReadPage()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return fmt.Errorf("column %s: %w", c.name, err)
		}
		kept, err := reader.page(page)
		if !kept {
			parquet.Release(page)
		}
		if err != nil {
			return fmt.Errorf("column %s: %w", c.name, err)
		}
	}
	if reader.next != len(rows) {
		return fmt.Errorf("column %s holds %d of %d rows", c.name, reader.next, len(rows))
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

	// Of a column without list: a pointer to a value of its type, and how many bytes into a row the value lies.
	kind   any
	offset uintptr

	reading *reading
	held    *held
	dict    parquet.Dictionary
	texts   []string // of dict, made when first met
	empty   int32    // the place of "" in dict, -1 before it is met
}

// page reads a page. It is kept if texts lie in it.
func (r *columnReader[T]) page(p parquet.Page) (kept bool, err error) {
	if !r.plain {
		return false, r.values(p)
	}
	n := int(p.NumValues())
	if r.next+n > len(r.rows) {
		return false, fmt.Errorf("more than %d values", len(r.rows))
	}
	rows := r.rows[r.next : r.next+n]
	r.next += n
	if d := p.Dictionary(); d != nil {
		return false, r.indexed(d, p, rows)
	}
	data := p.Data()
	switch r.kind.(type) {
	case *string:
		bytes, offsets := data.ByteArray()
		return r.plainTexts(p, rows, bytes, offsets)
	case *int64:
		return false, set(rows, r.offset, data.Int64())
	case *int32:
		return false, set(rows, r.offset, data.Int32())
	case *float64:
		values := data.Double()
		if len(values) != len(rows) {
			return false, wrongCount(len(values), len(rows))
		}
		for i, v := range values { // −0.0 is no zero value, though it equals one
			if row := rows[i]; row != nil {
				*field[float64](row, r.offset) = v
			}
		}
	default: // packed bits
		return false, r.assign(p, rows)
	}
	return false, nil
}

// placeOf finds where a column without list has its values. It is asked for a column and not for a value, for a call of
// at for each of them costs as much as all the rest.
func placeOf[T any](c column[T]) (kind any, offset uintptr) {
	row := new(T)
	from := func(p unsafe.Pointer) uintptr { return uintptr(p) - uintptr(unsafe.Pointer(row)) }
	switch p := c.at(row, 0).(type) {
	case *string:
		return p, from(unsafe.Pointer(p))
	case *int64:
		return p, from(unsafe.Pointer(p))
	case *int32:
		return p, from(unsafe.Pointer(p))
	case *float64:
		return p, from(unsafe.Pointer(p))
	case *bool:
		return p, from(unsafe.Pointer(p))
	default:
		panic(fmt.Sprintf("column %s is a %T", c.name, p))
	}
}

// field is the value of a column that lies at offset.
func field[V, T any](row *T, offset uintptr) *V { return (*V)(unsafe.Add(unsafe.Pointer(row), offset)) }

func wrongCount(have, want int) error {
	return fmt.Errorf("a page holds %d values and says %d", have, want)
}

// set puts values into rows, which are zero as they were made.
func set[T any, V comparable](rows []*T, offset uintptr, values []V) error {
	if len(values) != len(rows) {
		return wrongCount(len(values), len(rows))
	}
	var zero V
	for i, row := range rows {
		if v := values[i]; row != nil && v != zero {
			*field[V](row, offset) = v
		}
	}
	return nil
}

// plainTexts reads a page of texts, one after the other in bytes. With Reuse they are not copied.
func (r *columnReader[T]) plainTexts(p parquet.Page, rows []*T, bytes []byte, offsets []uint32) (kept bool, err error) {
	if len(offsets) != len(rows)+1 {
		return false, wrongCount(len(offsets)-1, len(rows))
	}
	keep := r.held != nil && r.reading.reuse != nil
	last := "" // as several watches are told of one version, whose rows lie side by side
	for i, row := range rows {
		start, end := offsets[i], offsets[i+1]
		if start > end || int(end) > len(bytes) {
			return kept, fmt.Errorf("a text lies outside of its page: from byte %d to %d of %d", start, end, len(bytes))
		}
		if row == nil || start == end {
			continue
		}
		text := bytes[start:end]
		if string(text) != last {
			if keep {
				kept = true
				last = unsafe.String(&text[0], len(text)) // valid until held is released
			} else {
				last = string(text)
			}
		}
		*field[string](row, r.offset) = last
	}
	if kept {
		r.held.pages = append(r.held.pages, p)
		if r.reading.reuse.Overwrite {
			r.held.bytes = append(r.held.bytes, bytes)
		}
	}
	return kept, nil
}

// indexed reads a page whose values are places in a dictionary.
func (r *columnReader[T]) indexed(d parquet.Dictionary, p parquet.Page, rows []*T) error {
	data := p.Data()
	indexes := data.Int32()
	if len(indexes) != len(rows) {
		return wrongCount(len(indexes), len(rows))
	}
	switch r.kind.(type) {
	case *string:
		r.indexedTexts(d, indexes, rows)
	case *int32:
		n := int32(d.Len())
		for i, index := range indexes {
			if index < 0 || index >= n {
				return fmt.Errorf("value %d of a dictionary of %d", index, n)
			}
			if row := rows[i]; row != nil {
				*field[int32](row, r.offset) = d.Index(index).Int32()
			}
		}
	default:
		return r.assign(p, rows)
	}
	return nil
}

func (r *columnReader[T]) indexedTexts(d parquet.Dictionary, indexes []int32, rows []*T) {
	if r.dict != d {
		r.begin(d)
	}
	for i, index := range indexes {
		row := rows[i]
		if row == nil || index == r.empty {
			continue
		}
		t := &r.texts[index]
		if *t == "" {
			if *t = r.dictText(d.Index(index).ByteArray()); *t == "" {
				r.empty = index
				continue
			}
		}
		*field[string](row, r.offset) = *t
	}
}

func (r *columnReader[T]) begin(d parquet.Dictionary) {
	n := d.Len()
	if n > cap(r.reading.dict) {
		r.reading.dict = make([]string, n)
	}
	r.dict, r.texts, r.empty = d, r.reading.dict[:n], -1
	clear(r.texts)
}

// dictText makes a text of a dictionary, whose memory is its own and the garbage collector's.
func (r *columnReader[T]) dictText(b []byte) string {
	switch {
	case len(b) == 0:
		return ""
	case len(r.texts) <= fewTexts:
		return r.reading.text(b)
	case r.held == nil || r.reading.reuse == nil:
		return string(b)
	}
	if r.reading.reuse.Overwrite {
		r.held.bytes = append(r.held.bytes, b)
	}
	return unsafe.String(&b[0], len(b))
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
