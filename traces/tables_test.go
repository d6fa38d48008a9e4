package traces

import (
	"slices"
	"strings"
	"testing"
)

// leaves are a table's columns as this package spells them out.
func (s *spec[T, P]) leaves() (names, lists []string) {
	for _, c := range s.columns {
		names = append(names, c.name)
		if c.list {
			lists = append(lists, c.name)
		}
	}
	return names, lists
}

// The columns that are spelled out must be those that the struct tags give, or a column would be
// written and never read.
func TestColumnsAreTheSchemas(t *testing.T) {
	for _, k := range kinds {
		names, lists := k.(interface{ leaves() (n, l []string) }).leaves()
		var want, wantLists []string
		for _, path := range k.schema().Columns() {
			name := strings.Join(path, ".")
			want = append(want, name)
			if leaf, _ := k.schema().Lookup(path...); leaf.MaxRepetitionLevel > 0 {
				wantLists = append(wantLists, name)
			}
		}
		for _, s := range []*[]string{&names, &lists, &want, &wantLists} {
			slices.Sort(*s)
		}
		if !slices.Equal(names, want) {
			t.Errorf("%s: columns %v, schema %v", k.table(), names, want)
		}
		if !slices.Equal(lists, wantLists) {
			t.Errorf("%s: lists %v, schema %v", k.table(), lists, wantLists)
		}
	}
}

func TestEveryTableHasItsPlace(t *testing.T) {
	want := []Table{
		TableWatch, TableRequests, TableReconciles, TableSamples, TableStacks, TableKernelEvents, TableLogs, TableMetrics, TableDecisions,
	}
	if got := Tables(); !slices.Equal(got, want) {
		t.Errorf("Tables() = %v, want %v", got, want)
	}
	if kinds[watchKind].table() != TableWatch || kinds[requestsKind].table() != TableRequests {
		t.Error("watch and requests are not where the code looks for them")
	}
}
