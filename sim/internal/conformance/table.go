package conformance

import (
	"cmp"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// Table counts operations and differences.
type Table struct {
	Seed      uint64
	Sequences int
	rows      map[string]map[string]*Count // by what is counted, and its value
	forms     map[string]*form
}

// Count is a row of a Table.
type Count struct {
	Operations, Known, Unexplained int
	// Refused is how many the real server answered with a code of 400 or above.
	Refused int
}

// Add counts a sequence's outcomes.
func (t *Table) Add(s *Sequence, outcomes []*Outcome) {
	t.Sequences++
	first := true
	for _, o := range outcomes {
		if first && len(o.Differences) > 0 {
			// What comes after it is often its consequence.
			t.note(s, o)
			first = false
		}
		for by, value := range map[string]string{"area": o.Op.Area, "verb": o.Op.Verb, "kind": o.Op.Kind, "answer": code(o), "all": "all"} {
			t.row(by, value).add(o)
		}
	}
}

// code is what the real server answered.
func code(o *Outcome) string {
	if o.Real == nil || o.Real.Code == 0 {
		return "none"
	}
	return strconv.Itoa(o.Real.Code)
}

func (t *Table) row(by, value string) *Count {
	if t.rows == nil {
		t.rows = map[string]map[string]*Count{}
	}
	if t.rows[by] == nil {
		t.rows[by] = map[string]*Count{}
	}
	c := t.rows[by][value]
	if c == nil {
		c = &Count{}
		t.rows[by][value] = c
	}
	return c
}

func (c *Count) add(o *Outcome) {
	c.Operations++
	if o.Real != nil && o.Real.Code >= 400 {
		c.Refused++
	}
	switch {
	case len(o.Differences) > 0:
		c.Unexplained++
	case len(o.Known) > 0:
		c.Known++
	}
}

// form is one way in which answers differ.
type form struct {
	count   int
	example string
}

// mostForms bounds what one operation adds: OpenAPI documents can differ in a thousand places.
const mostForms = 12

var index = regexp.MustCompile(`\[\d+\]`)

// note counts the ways in which the first operation of a sequence that differs does.
func (t *Table) note(s *Sequence, o *Outcome) {
	if t.forms == nil {
		t.forms = map[string]*form{}
	}
	for i, d := range o.Differences {
		if i == mostForms {
			break
		}
		key := fmt.Sprintf("%s: real %.120s, ours %.120s", index.ReplaceAllString(d.Path, "[]"), short(d.Real), short(d.Ours))
		f := t.forms[key]
		if f == nil {
			f = &form{example: fmt.Sprintf("sequence %d, operation %d: %s %s %s", s.Number, o.Op.ID, o.Op.Verb, o.Op.Method, o.Op.Path)}
			t.forms[key] = f
		}
		f.count++
	}
}

// Forms lists the ways in which answers differ without an explanation, the most frequent first.
func (t *Table) Forms() string {
	var b strings.Builder
	order := slices.SortedFunc(maps.Keys(t.forms), func(x, y string) int {
		return cmp.Or(cmp.Compare(t.forms[y].count, t.forms[x].count), cmp.Compare(x, y))
	})
	for _, key := range order {
		fmt.Fprintf(&b, "%5d %s\n      %s\n", t.forms[key].count, key, t.forms[key].example)
	}
	return b.String()
}

// All is the row of everything.
func (t *Table) All() Count { return *t.row("all", "all") }

// Markdown is the table for people.
func (t *Table) Markdown() string {
	var b strings.Builder
	all := t.All()
	fmt.Fprintf(&b, "Seed %d: %d operations in %d sequences, of which the real server refused %d; %d with a known difference, %d with one that is not explained.\n",
		t.Seed, all.Operations, t.Sequences, all.Refused, all.Known, all.Unexplained)
	for _, by := range []string{"area", "verb", "answer", "kind"} {
		fmt.Fprintf(&b, "\n| %s | operations | refused | known differences | unexplained |\n| --- | --: | --: | --: | --: |\n", by)
		for _, v := range slices.Sorted(maps.Keys(t.rows[by])) {
			c := t.rows[by][v]
			fmt.Fprintf(&b, "| %s | %d | %d | %d | %d |\n", v, c.Operations, c.Refused, c.Known, c.Unexplained)
		}
	}
	return b.String()
}
