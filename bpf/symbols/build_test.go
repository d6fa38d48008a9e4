package symbols

import (
	"testing"

	"github.com/opreplay/opreplay/bpf/internal/guest"
)

// forms are the ways in which the test program is built.
var forms = []struct {
	name  string
	flags []string
}{
	{"plain", nil},
	{"stripped", []string{guest.Stripped}},
	{"pie", []string{"-buildmode=pie", guest.Stripped}},
}

// build compiles testdata/guest.
func build(t testing.TB, flags ...string) string {
	t.Helper()
	return guest.Build(t, "./testdata/guest", flags...)
}

func open(t testing.TB, path string) *Binary {
	t.Helper()
	b, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	return b
}
