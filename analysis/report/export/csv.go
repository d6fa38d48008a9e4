package export

import (
	"bytes"
	"context"
	"encoding/csv"
	"encoding/json"
	"os"
	"path/filepath"
	"reflect"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/opreplay/opreplay/traces"
)

// CSV writes each table that has rows as TABLE.csv (RFC 4180) into a folder, which it makes, with a header of the
// columns that docs/trace-format.md lists; times are RFC 3339. Files have mode 0600. It returns the rows of each table.
//
// Spreadsheets take a cell that begins with =, +, -, @ (or one of these in full width), a tab or an end of a line for a
// formula: such texts get an apostrophe before them, as OWASP advises ("CSV Injection").
func CSV(ctx context.Context, t *traces.Trace, dir string) (map[traces.Table]int64, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	files := map[traces.Table]*csvFile{}
	defer func() {
		for _, f := range files {
			_ = f.file.Close() // again, after an error
		}
	}()
	for record, err := range t.Records(ctx, traces.Range{}) {
		if err != nil {
			return nil, err
		}
		f := files[record.Table()]
		if f == nil {
			if f, err = newCSVFile(filepath.Join(dir, string(record.Table())+".csv"), record); err != nil {
				return nil, err
			}
			files[record.Table()] = f
		}
		if err := f.put(record); err != nil {
			return nil, err
		}
	}
	rows := map[traces.Table]int64{}
	for table, f := range files {
		f.out.Flush()
		if err := f.out.Error(); err != nil {
			return nil, err
		}
		if err := f.file.Close(); err != nil {
			return nil, err
		}
		rows[table] = f.rows
	}
	return rows, nil
}

type csvFile struct {
	file *os.File
	out  *csv.Writer
	rows int64
	row  []string
}

func newCSVFile(path string, record traces.Record) (*csvFile, error) {
	file, err := os.OpenFile(path, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, err
	}
	f := &csvFile{file: file, out: csv.NewWriter(file)}
	f.header(reflect.TypeOf(record).Elem())
	return f, f.out.Write(f.row)
}

// header is the names of a row's columns: those of its Parquet schema.
func (f *csvFile) header(t reflect.Type) {
	for i := range t.NumField() {
		field := t.Field(i)
		if field.Anonymous {
			f.header(field.Type)
			continue
		}
		name, _, _ := strings.Cut(field.Tag.Get("parquet"), ",")
		f.row = append(f.row, name)
	}
}

func (f *csvFile) put(record traces.Record) error {
	f.row = f.row[:0]
	if err := f.cells(reflect.ValueOf(record).Elem()); err != nil {
		return err
	}
	f.rows++
	return f.out.Write(f.row)
}

func (f *csvFile) cells(v reflect.Value) error {
	for i := range v.NumField() {
		field, x := v.Type().Field(i), v.Field(i)
		if field.Anonymous {
			if err := f.cells(x); err != nil {
				return err
			}
			continue
		}
		cell, err := cellOf(x, strings.Contains(field.Tag.Get("parquet"), "timestamp"))
		if err != nil {
			return err
		}
		f.row = append(f.row, cell)
	}
	return nil
}

func cellOf(x reflect.Value, moment bool) (string, error) {
	switch {
	case moment && x.Int() == 0:
		return "", nil
	case moment:
		return time.Unix(0, x.Int()).UTC().Format(time.RFC3339Nano), nil
	case x.CanInt():
		return strconv.FormatInt(x.Int(), 10), nil
	case x.CanFloat():
		return strconv.FormatFloat(x.Float(), 'g', -1, 64), nil
	case x.Kind() == reflect.Bool:
		return strconv.FormatBool(x.Bool()), nil
	case x.Kind() == reflect.String:
		return noFormula(x.String()), nil
	}
	var b bytes.Buffer // a list: JSON, which begins with a bracket
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	err := e.Encode(x.Interface())
	return strings.TrimSuffix(b.String(), "\n"), err
}

func noFormula(s string) string {
	if first, _ := utf8.DecodeRuneInString(s); s != "" && strings.ContainsRune("=+-@\t\r\n＝＋－＠", first) {
		return "'" + s
	}
	return s
}
