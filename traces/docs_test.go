package traces

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// The page for users has every table and every column, with its type.
func TestDocumentation(t *testing.T) {
	page, err := os.ReadFile("../docs/trace-format.md")
	if err != nil {
		t.Fatal(err)
	}
	types := map[string]string{
		"STRING": "string", "INT64": "int64", "INT(64,true)": "int64", "INT32": "int32", "INT(32,true)": "int32", "BOOLEAN": "bool", "DOUBLE": "double",
		"TIMESTAMP(isAdjustedToUTC=true,unit=NANOS)": "timestamp",
	}
	row := regexp.MustCompile("(?m)^\\| ((?:`[a-z_]+` ?)+) \\| ([a-z0-9 ]+) \\| (.*) ?\\|$")
	columns := func(section string) map[string]string {
		all := map[string]string{}
		for _, m := range row.FindAllStringSubmatch(section, -1) {
			for _, name := range strings.Fields(m[1]) {
				all[strings.Trim(name, "`")] = m[2]
			}
		}
		return all
	}
	sections := strings.Split(string(page), "\n### ")
	common := columns(sections[0])
	var tables []string
	for _, section := range sections[1:] {
		name, text, _ := strings.Cut(section, "\n")
		text, _, _ = strings.Cut(text, "\n## ")
		tables = append(tables, name)
		k := kindOf(Table(name))
		if k < 0 {
			t.Errorf("the page has a table %s", name)
			continue
		}
		documented := columns(text)
		for _, f := range kinds[k].schema().Fields() {
			got, ok := documented[f.Name()]
			if !ok {
				got = common[f.Name()]
			}
			want := "list of struct"
			if f.Leaf() {
				want = types[f.Type().String()]
			}
			if got != want {
				t.Errorf("%s.%s: the page says %q, the schema %q (%s)", name, f.Name(), got, want, f.Type())
			}
			delete(documented, f.Name())
		}
		for column := range documented {
			t.Errorf("%s.%s: the page has it, the schema has not", name, column)
		}
	}
	for _, k := range kinds {
		if !slices.Contains(tables, string(k.table())) {
			t.Errorf("the page lacks table %s", k.table())
		}
	}
}
