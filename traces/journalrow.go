package traces

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"math"
	"slices"
)

// A row in the journal is the number of its table in the header, then its values in the order of the table's columns:
// integers as zigzag varints, texts as their length and bytes, floats as their bits, booleans as a byte. A list stands
// at its first column: its length, then for each column its values.

// journalColumn is a column as a segment's header names it.
type journalColumn struct {
	Name string `json:"name"`
	Type string `json:"type"` // int, text, float, bool
	List bool   `json:"list,omitempty"`
}

type journalTable struct {
	Table   Table           `json:"table"`
	Columns []journalColumn `json:"columns"`
}

// journalHeader is the header of this build's segments.
func journalHeader() []byte {
	var tables []journalTable
	for _, k := range kinds {
		tables = append(tables, journalTable{k.table(), k.names()})
	}
	text, _ := json.Marshal(tables) // texts and booleans: never fails
	return text
}

func (s *spec[T, P]) names() []journalColumn { return s.named() }

func (s *spec[T, P]) nameColumns() (all []journalColumn) {
	for _, c := range s.columns {
		j := journalColumn{Name: c.name, List: c.list}
		switch c.at(new(T), 0).(type) {
		case *string:
			j.Type = "text"
		case *float64:
			j.Type = "float"
		case *bool:
			j.Type = "bool"
		default:
			j.Type = "int"
		}
		all = append(all, j)
	}
	return all
}

func (s *spec[T, P]) pack(b []byte, r Record) []byte {
	row := (*T)(r.(P))
	counted := false
	for _, c := range s.columns {
		n := 1
		if c.list {
			n = s.listLen(row)
			if !counted {
				b, counted = binary.AppendUvarint(b, uint64(n)), true
			}
		}
		for i := range n {
			b = packValue(b, c.at(row, i))
		}
	}
	return b
}

func packValue(b []byte, v any) []byte {
	switch v := v.(type) {
	case *string:
		return append(binary.AppendUvarint(b, uint64(len(*v))), *v...)
	case *int64:
		return binary.AppendVarint(b, *v)
	case *int32:
		return binary.AppendVarint(b, int64(*v))
	case *float64:
		return binary.LittleEndian.AppendUint64(b, math.Float64bits(*v))
	case *bool:
		if *v {
			return append(b, 1)
		}
	}
	return append(b, 0)
}

// unpacker reads values from a block. The first error stays.
type unpacker struct {
	b   []byte
	err error
}

var errJournalRow = errors.New("a row that is not whole")

func (u *unpacker) uvarint() uint64 {
	v, n := binary.Uvarint(u.b)
	return v * u.skip(n)
}

func (u *unpacker) varint() int64 {
	v, n := binary.Varint(u.b)
	return v * int64(u.skip(n))
}

// skip passes over N bytes; it gives 0 where there are none, else 1.
func (u *unpacker) skip(n int) uint64 {
	if n <= 0 || n > len(u.b) {
		u.err, u.b = errJournalRow, nil
		return 0
	}
	u.b = u.b[n:]
	return 1
}

func (u *unpacker) text() string {
	n := u.uvarint()
	if n > uint64(len(u.b)) {
		u.err, u.b = errJournalRow, nil
		return ""
	}
	s := string(u.b[:n])
	u.b = u.b[n:]
	return s
}

// value reads a value of a type into TO, which has that type or is nil.
func (u *unpacker) value(kind string, to any) {
	switch kind {
	case "text":
		if s := u.text(); to != nil {
			*to.(*string) = s
		}
	case "float":
		var bits uint64
		if len(u.b) >= 8 {
			bits = binary.LittleEndian.Uint64(u.b)
		}
		if u.skip(8); to != nil {
			*to.(*float64) = math.Float64frombits(bits)
		}
	case "bool":
		is := len(u.b) > 0 && u.b[0] == 1
		if u.skip(1); to != nil {
			*to.(*bool) = is
		}
	default:
		v := u.varint()
		switch to := to.(type) {
		case *int64:
			*to = v
		case *int32:
			*to = int32(v)
		}
	}
}

const maxJournalList = 1 << 20

func (s *spec[T, P]) unpack(u *unpacker, columns []journalColumn) Record {
	row := new(T)
	counted, n := false, 0
	for _, jc := range columns {
		times := 1
		if jc.List {
			if !counted {
				if n, counted = int(min(u.uvarint(), maxJournalList+1)), true; n > maxJournalList {
					u.err = errJournalRow
				}
			}
			times = n
		}
		c := s.column(jc)
		for i := 0; i < times && u.err == nil; i++ {
			var to any
			if c != nil {
				to = c.at(row, i)
			}
			u.value(jc.Type, to)
		}
	}
	return P(row)
}

// column is the one of that name and type; nil where this build has none.
func (s *spec[T, P]) column(jc journalColumn) *column[T] {
	if i := slices.Index(s.names(), jc); i >= 0 {
		return &s.columns[i]
	}
	return nil
}
