package traces

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"sync"
	"unicode/utf8"

	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/compress/zstd"
)

// kind is what the Writer and the Reader know of one table, its row type hidden.
type kind interface {
	table() Table
	// prepare makes the row's texts valid UTF-8 (Parquet's STRING demands it, and readers refuse a
	// whole file for one bad byte) and returns the bytes that the row holds in memory, about.
	prepare(Record) (bytes int)
	// sort orders the rows of one row group as they are stored.
	sort([]Record)
	// inOrder says whether b may follow a in a row group.
	inOrder(a, b Record) bool
	schema() *parquet.Schema
	encoder(*fileWriter, *zstd.Codec) encoder
	decode(parquet.RowGroup, *selection, *reading) (batch, error)
	// names are the columns and their types, for the journal, to which pack appends a row.
	names() []journalColumn
	pack([]byte, Record) []byte
	// unpack reads a row whose columns are as the journal's header says.
	unpack(*unpacker, []journalColumn) Record
}

// spec is the definition of one table with rows of type T.
type spec[T any, P interface {
	*T
	Record
}] struct {
	columns []column[T]
	strings []column[T]      // those of columns that hold text
	listLen func(row *T) int // elements of the row's list; nil for tables without
	bodies  []string         // columns of whole objects, too large for statistics
	sorting []string         // columns by which a row group is sorted before seq; nil: by seq alone
	compare func(a, b *T) int
	parquet *parquet.Schema
	named   func() []journalColumn // names, made once: a repair asks for them by the value
}

func newSpec[T any, P interface {
	*T
	Record
}](s spec[T, P]) *spec[T, P] {
	for _, c := range s.columns {
		if _, ok := c.at(new(T), 0).(*string); ok {
			s.strings = append(s.strings, c)
		}
	}
	s.parquet = parquet.SchemaOf(new(T))
	s.named = sync.OnceValue(s.nameColumns)
	return &s
}

// kinds are all tables, in the order in which files are closed and listed. watch stands first, for
// requests refer to it.
var kinds = []kind{
	newSpec(spec[WatchEvent, *WatchEvent]{
		columns: watchColumns,
		bodies:  []string{"object"},
		sorting: []string{"group", "resource", "namespace", "name", "uid", "resource_version"},
		compare: func(a, b *WatchEvent) int {
			return cmp.Or(compareObjects(&a.Identity, &b.Identity), cmp.Compare(a.ResourceVersion, b.ResourceVersion))
		},
	}),
	newSpec(spec[Request, *Request]{
		columns: requestColumns,
		bodies:  []string{"request_body", "response_body"},
		// Not by version: failed calls and lists have none, and the order of the calls to one object
		// is that of its versions anyway.
		sorting: []string{"group", "resource", "namespace", "name"},
		compare: func(a, b *Request) int {
			return compareNames(&a.Identity, &b.Identity)
		},
	}),
	newSpec(spec[Reconcile, *Reconcile]{columns: reconcileColumns}),
	newSpec(spec[Sample, *Sample]{columns: sampleColumns}),
	newSpec(spec[Stack, *Stack]{columns: stackColumns, listLen: func(s *Stack) int { return len(s.Frames) }}),
	newSpec(spec[KernelEvent, *KernelEvent]{columns: kernelEventColumns}),
	newSpec(spec[Log, *Log]{columns: logColumns, bodies: []string{"message", "fields"}}),
	newSpec(spec[Metric, *Metric]{columns: metricColumns, listLen: func(m *Metric) int { return len(m.Labels) }}),
	newSpec(spec[Decision, *Decision]{columns: decisionColumns}),
}

// Places in kinds that the code speaks of.
const (
	watchKind    = 0
	requestsKind = 1
)

// Tables are the tables of this format version, in a fixed order.
func Tables() []Table {
	var all []Table
	for _, k := range kinds {
		all = append(all, k.table())
	}
	return all
}

// kindOf is the place of table in kinds, or -1 for a table that this version does not know.
func kindOf(t Table) int {
	return slices.IndexFunc(kinds, func(k kind) bool { return k.table() == t })
}

func compareNames(a, b *Identity) int {
	return cmp.Or(
		strings.Compare(a.Group, b.Group),
		strings.Compare(a.Resource, b.Resource),
		strings.Compare(a.Namespace, b.Namespace),
		strings.Compare(a.Name, b.Name),
	)
}

func compareObjects(a, b *Identity) int {
	return cmp.Or(compareNames(a, b), strings.Compare(a.UID, b.UID))
}

func (s *spec[T, P]) table() Table { return P(nil).Table() }

func (s *spec[T, P]) schema() *parquet.Schema { return s.parquet }

// rowOverhead is about what a row costs in memory beside its texts.
const rowOverhead = 512

func (s *spec[T, P]) prepare(r Record) int {
	row := (*T)(r.(P))
	n := rowOverhead
	for _, c := range s.strings {
		values := 1
		if c.list {
			values = s.listLen(row)
		}
		for i := range values {
			text := c.at(row, i).(*string)
			if !utf8.ValidString(*text) {
				*text = strings.ToValidUTF8(*text, "\uFFFD")
			}
			n += len(*text)
		}
	}
	return n
}

func (s *spec[T, P]) order(a, b Record) int {
	if s.compare != nil {
		if c := s.compare((*T)(a.(P)), (*T)(b.(P))); c != 0 {
			return c
		}
	}
	return cmp.Compare(a.Header().Seq, b.Header().Seq)
}

func (s *spec[T, P]) sort(rows []Record)       { slices.SortStableFunc(rows, s.order) }
func (s *spec[T, P]) inOrder(a, b Record) bool { return s.order(a, b) <= 0 }

// check says what is wrong with a record before it gets a place, or nil.
func check(r Record) (int, error) {
	if r == nil {
		return 0, fmt.Errorf("traces: append of a nil record")
	}
	k := kindOf(r.Table())
	if k < 0 {
		return 0, fmt.Errorf("traces: append of a %T: no such table", r)
	}
	if r.Header().Seq < 0 {
		return 0, fmt.Errorf("traces: append of a %s row with seq %d", r.Table(), r.Header().Seq)
	}
	return k, nil
}
