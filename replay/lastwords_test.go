package replay

import (
	"testing"

	"github.com/opreplay/opreplay/traces"
)

func TestLastWords(t *testing.T) {
	for _, c := range []struct {
		lines []traces.Log
		want  string
	}{
		{nil, ""},
		{[]traces.Log{{Message: "starting"}, {Message: "done", Fields: `{"a":1}`}, {Message: "  "}}, `done {"a":1}`},
		{[]traces.Log{{Message: "flag provided but not defined: -x"}, {Message: "Usage of manager:"}, {Message: "  -y"}}, "flag provided but not defined: -x"},
		{[]traces.Log{{Level: "error", Message: "no lease", Fields: `{"error":"gone"}`}, {Level: "error", Message: "cannot go on"}, {Message: "main.go:7"}}, `no lease {"error":"gone"}`},
		{[]traces.Log{{Level: "error", Message: "no lease"}, {Level: "fatal", Message: "cannot go on"}, {Message: "goroutine 1"}}, "cannot go on"},
		{[]traces.Log{{Level: "error", Message: "e"}, {Message: "panic: nil map"}, {Message: "goroutine 1 [running]:"}, {Message: "main.go:7"}}, "panic: nil map"},
	} {
		var w LastWords
		for i := range c.lines {
			w.Hear(&c.lines[i])
		}
		if w.String() != c.want {
			t.Errorf("%+v: %q, want %q", c.lines, w.String(), c.want)
		}
	}
}
