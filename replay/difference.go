package replay

import (
	"context"
	"fmt"
	"io"
	"iter"
	"reflect"
	"strings"
	"time"

	"github.com/opreplay/opreplay/internal/cli"
	"github.com/opreplay/opreplay/traces"
)

// around is how many rows before and after a difference are shown.
const around = 4

// Difference is where two runs part: the first row in which their traces differ.
type Difference struct {
	// Seq is the row's number on either side.
	Seq int64 `json:"seq"`
	// Columns are the row's columns that differ, and how; empty when the rows are of different tables or one
	// trace has ended.
	Columns []ColumnDifference `json:"columns,omitempty"`
	// A and B are the rows of either side around it, in words.
	A []string `json:"a"`
	B []string `json:"b"`
}

// ColumnDifference is a column in which a row differs.
type ColumnDifference struct {
	Column string `json:"column"`
	A      string `json:"a"`
	B      string `json:"b"`
}

// compareTraces finds where two traces part; nil when their rows are equal.
func compareTraces(ctx context.Context, a, b string) (*Difference, error) {
	rowsA, closeA, err := pullRows(ctx, a)
	if err != nil {
		return nil, err
	}
	defer closeA()
	rowsB, closeB, err := pullRows(ctx, b)
	if err != nil {
		return nil, err
	}
	defer closeB()
	var before []string
	first := int64(0)
	for {
		ra, err := rowsA()
		if err != nil {
			return nil, err
		}
		rb, err := rowsB()
		if err != nil {
			return nil, err
		}
		if ra == nil && rb == nil {
			return nil, nil
		}
		if first == 0 && ra != nil {
			first = ra.Header().TS
		}
		if reflect.DeepEqual(ra, rb) {
			if before = append(before, inWords(ra, first)); len(before) > around {
				before = before[1:]
			}
			continue
		}
		d := &Difference{Columns: columns(ra, rb)}
		if ra != nil {
			d.Seq = ra.Header().Seq
		} else {
			d.Seq = rb.Header().Seq
		}
		if d.A, err = side(before, ra, rowsA, first); err != nil {
			return nil, err
		}
		d.B, err = side(before, rb, rowsB, first)
		return d, err
	}
}

// pullRows gives a trace's rows one by one; nil is the end.
func pullRows(ctx context.Context, dir string) (next func() (traces.Record, error), stop func(), err error) {
	t, err := traces.Open(dir)
	if err != nil {
		return nil, nil, cli.CannotRun(err)
	}
	pull, end := iter.Pull2(t.Records(ctx, traces.Range{}))
	next = func() (traces.Record, error) {
		r, err, ok := pull()
		if !ok || err != nil {
			return nil, cli.CannotRun(err)
		}
		return r, nil
	}
	return next, func() { end(); _ = t.Close() }, nil
}

// side is the rows of one side around the difference, which is marked.
func side(before []string, at traces.Record, next func() (traces.Record, error), first int64) ([]string, error) {
	var lines []string
	for _, l := range before {
		lines = append(lines, "  "+l)
	}
	mark := "> "
	for i := 0; i <= around; i++ {
		if at == nil {
			return append(lines, mark+"the end"), nil
		}
		lines = append(lines, mark+inWords(at, first))
		mark = "  "
		var err error
		if at, err = next(); err != nil {
			return nil, err
		}
	}
	return lines, nil
}

// columns are those in which two rows of one table differ.
func columns(a, b traces.Record) (all []ColumnDifference) {
	if a == nil || b == nil || a.Table() != b.Table() {
		return nil
	}
	va, vb := reflect.ValueOf(a).Elem(), reflect.ValueOf(b).Elem()
	for _, f := range reflect.VisibleFields(va.Type()) {
		x, y := va.FieldByIndex(f.Index).Interface(), vb.FieldByIndex(f.Index).Interface()
		if f.Anonymous || reflect.DeepEqual(x, y) {
			continue
		}
		name, _, _ := strings.Cut(f.Tag.Get("parquet"), ",")
		l, r := apart(fmt.Sprint(x), fmt.Sprint(y))
		all = append(all, ColumnDifference{name, l, r})
	}
	return all
}

// apart is what two texts look like from shortly before where they differ.
func apart(a, b string) (string, string) {
	const before, after = 30, 90
	i := 0
	for i < len(a) && i < len(b) && a[i] == b[i] {
		i++
	}
	cut := func(s string) string {
		from, to, end := max(0, i-before), min(len(s), i+after), ""
		start := ""
		if from > 0 {
			start = "…"
		}
		if to < len(s) {
			end = "…"
		}
		return start + strings.ToValidUTF8(s[min(from, len(s)):to], "") + end
	}
	return cut(a), cut(b)
}

// inWords is a row in a line. FIRST is the time from which times are measured.
func inWords(r traces.Record, first int64) string {
	h := r.Header()
	return fmt.Sprintf("seq %d  +%.6fs  %s", h.Seq, time.Duration(h.TS-first).Seconds(), rowText(r))
}

func rowText(r traces.Record) string {
	switch r := r.(type) {
	case *traces.WatchEvent:
		return fmt.Sprintf("event to %s: %s %s@%d", r.Process, r.Type, objectText(&r.Identity), r.ResourceVersion)
	case *traces.Request:
		who := r.Process
		if who == "" {
			who = "outsider " + r.User
		}
		return fmt.Sprintf("call by %s: %s %s%s: %d", who, r.Verb, objectText(&r.Identity), strings.TrimSuffix(" "+r.Subresource, " "), r.Code)
	case *traces.Log:
		return fmt.Sprintf("log of %s: %s", r.Process, short1(r.Message))
	case *traces.Decision:
		return fmt.Sprintf("decision %d: %s %s (%d of %d)", r.Step, r.Kind, r.Subject, r.Choice+1, r.Of)
	}
	return string(r.Table())
}

func objectText(id *traces.Identity) string {
	s := id.Resource
	if id.Name != "" {
		s += "/" + id.Name
	}
	if id.Namespace != "" {
		s += " -n " + id.Namespace
	}
	return s
}

// short1 is the beginning of a line.
func short1(s string) string {
	const most = 120
	if r := []rune(s); len(r) > most {
		return string(r[:most]) + "…"
	}
	return s
}

// Text prints the difference for a person.
func (d *Difference) Text(w io.Writer) error {
	p := newPrinter(w)
	p.Line("the runs part at row %d", d.Seq)
	for _, c := range d.Columns {
		p.Line("  %s: %q in the first run, %q in the other", c.Column, c.A, c.B)
	}
	for _, s := range []struct {
		name string
		rows []string
	}{{"first run", d.A}, {"other run", d.B}} {
		p.Line("%s:", s.name)
		for _, l := range s.rows {
			p.Line("  %s", l)
		}
	}
	return p.Err
}

// Text prints the check for a person.
func (c *Checked) Text(w io.Writer) error {
	p := newPrinter(w)
	where := "one process"
	if c.Processes > 1 {
		where = fmt.Sprintf("%d processes", c.Processes)
	}
	p.Line("%d of %d runs identical, %s (in %s, %s)", c.Identical, c.Runs, c.First.Hash, where, short(c.Took))
	for _, r := range c.First.Reasons {
		p.Line("not deterministic: %s", r)
	}
	for _, u := range c.Unlike {
		p.Line("run %d is not like the first: %s, %s", u.Run, u.RunDir, u.Hash)
	}
	if p.Err == nil && c.Difference != nil {
		p.Err = c.Difference.Text(w)
	}
	return p.Err
}
