package traces

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/apache/arrow-go/v18/parquet/file"
	"github.com/apache/arrow-go/v18/parquet/pqarrow"
	gocmp "github.com/google/go-cmp/cmp"
	"github.com/parquet-go/parquet-go"
)

// Apache Arrow's own reader, which shares no code with the one the product uses, reads every column of
// every table: same names, same values, and times as times.
func TestArrowReadsEveryTable(t *testing.T) {
	w, dir := mustCreate(t, WriterOptions{RowGroupRows: 7})
	byTable := map[Table][]Record{}
	for i := range int64(20) {
		rows := oneOfEach(i)
		appendAll(t, w, rows...)
		for _, r := range rows {
			byTable[r.Table()] = append(byTable[r.Table()], r)
		}
	}
	mustClose(t, w)
	for _, k := range kinds {
		got := arrowTable(t, filepath.Join(dir, string(k.table())+"-0001.parquet"))
		want := k.(interface {
			asMaps([]Record) []map[string]string
		}).asMaps(byTable[k.table()])
		slices.SortFunc(got, func(a, b map[string]string) int { return strings.Compare(a["seq"], b["seq"]) })
		slices.SortFunc(want, func(a, b map[string]string) int { return strings.Compare(a["seq"], b["seq"]) })
		if diff := gocmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-written +arrow):\n%s", k.table(), diff)
		}
	}
}

// asMaps gives rows as column → printed value.
func (s *spec[T, P]) asMaps(rows []Record) (all []map[string]string) {
	for _, r := range rows {
		row := (*T)(r.(P))
		m := map[string]string{}
		for _, c := range s.columns {
			n := 1
			if c.list {
				n = s.listLen(row)
			}
			var values []string
			for i := range n {
				switch p := c.at(row, i).(type) {
				case *string:
					values = append(values, *p)
				case *int64:
					values = append(values, fmt.Sprint(*p))
				case *int32:
					values = append(values, fmt.Sprint(*p))
				case *float64:
					values = append(values, fmt.Sprint(*p))
				case *bool:
					values = append(values, fmt.Sprint(*p))
				}
			}
			m[strings.Replace(c.name, ".list.element.", ".", 1)] = strings.Join(values, ",")
		}
		all = append(all, m)
	}
	return all
}

func arrowTable(t *testing.T, path string) (rows []map[string]string) {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	pf, err := file.NewParquetReader(f)
	if err != nil {
		t.Fatal(err)
	}
	reader, err := pqarrow.NewFileReader(pf, pqarrow.ArrowReadProperties{}, memory.DefaultAllocator)
	if err != nil {
		t.Fatal(err)
	}
	table, err := reader.ReadTable(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	defer table.Release()
	rows = make([]map[string]string, table.NumRows())
	for i := range rows {
		rows[i] = map[string]string{}
	}
	for c := range int(table.NumCols()) {
		name := table.Schema().Field(c).Name
		i := 0
		for _, chunk := range table.Column(c).Data().Chunks() {
			for j := range chunk.Len() {
				arrowValue(t, rows[i], name, chunk, j)
				i++
			}
		}
	}
	return rows
}

func arrowValue(t *testing.T, row map[string]string, name string, a arrow.Array, i int) {
	t.Helper()
	switch a := a.(type) {
	case *array.List:
		from, to := a.ValueOffsets(i)
		element := a.ListValues().(*array.Struct)
		for f := range element.NumField() {
			var values []string
			for j := from; j < to; j++ {
				one := map[string]string{}
				arrowValue(t, one, "", element.Field(f), int(j))
				values = append(values, one[""])
			}
			field := element.DataType().(*arrow.StructType).Field(f).Name
			row[name+"."+field] = strings.Join(values, ",")
		}
	case *array.Timestamp:
		typ := a.DataType().(*arrow.TimestampType)
		if typ.Unit != arrow.Nanosecond || typ.TimeZone != "UTC" {
			t.Errorf("%s is a %v, want UTC nanoseconds", name, typ)
		}
		row[name] = fmt.Sprint(int64(a.Value(i)))
	default:
		row[name] = a.ValueStr(i)
	}
}

// foreign makes a trace of one file of watch rows of type T, as another version or program may write
// them.
func foreign[T any](t *testing.T, rows []T) *Trace {
	t.Helper()
	w, dir := mustCreate(t, WriterOptions{})
	mustClose(t, w)
	tr := mustOpen(t, dir)
	path := filepath.Join(dir, "watch-0001.parquet")
	if err := parquet.WriteFile(path, rows); err != nil {
		t.Fatal(err)
	}
	f := File{Name: "watch-0001.parquet", Table: TableWatch, Rows: int64(len(rows)), FirstSeq: 1, LastSeq: 100, LastTS: 1 << 60}
	f.Bytes = int64(len(mustReadFile(t, path)))
	tr.manifest.Files = []File{f}
	tr.trusted[f.Name] = nil
	return tr
}

// A column that an older version did not have is zero; one that a newer version adds is passed over;
// nulls, which other programs write, are zero.
func TestOtherSchemas(t *testing.T) {
	type row struct {
		Seq       int64   `parquet:"seq"`
		TS        int64   `parquet:"ts,timestamp(nanosecond:utc)"`
		Name      string  `parquet:"name"`
		Namespace *string `parquet:"namespace,optional"`
		New       string  `parquet:"new_column"`
	}
	ns := "ns"
	tr := foreign(t, []row{{1, 10, "a", nil, "x"}, {2, 20, "b", &ns, "y"}, {3, 30, "c", nil, "z"}})
	want := []Record{
		&WatchEvent{Head: Head{1, 10}, Identity: Identity{Name: "a"}},
		&WatchEvent{Head: Head{2, 20}, Identity: Identity{Name: "b", Namespace: "ns"}},
		&WatchEvent{Head: Head{3, 30}, Identity: Identity{Name: "c"}},
	}
	if diff := gocmp.Diff(want, readAll(t, tr, Range{})); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// A column of another type is an error: the Parquet library would convert it without a word.
func TestOtherTypesAreRefused(t *testing.T) {
	check := func(tr *Trace, want string) {
		t.Helper()
		n := 0
		for _, err := range tr.Records(t.Context(), Range{}) {
			if n++; err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%v; want an error with %q", err, want)
			}
		}
		if n != 1 {
			t.Errorf("%d yields", n)
		}
	}
	check(foreign(t, []struct {
		Seq int64 `parquet:"seq"`
		TS  int64 `parquet:"ts,timestamp(millisecond)"`
	}{{1, 2}}), "column ts has type TIMESTAMP(isAdjustedToUTC=true,unit=MILLIS)")
	check(foreign(t, []struct {
		Seq  int64 `parquet:"seq"`
		TS   int64 `parquet:"ts,timestamp(nanosecond:utc)"`
		Name int64 `parquet:"name"`
	}{{1, 2, 3}}), "column name has type")
	check(foreign(t, []struct {
		Seq  int64    `parquet:"seq"`
		TS   int64    `parquet:"ts,timestamp(nanosecond:utc)"`
		Name []string `parquet:"name"`
	}{{1, 2, []string{"a"}}}), "column name is nested")
	check(foreign(t, []struct {
		TS int64 `parquet:"ts,timestamp(nanosecond:utc)"`
	}{{2}}), "column seq is missing")
}
