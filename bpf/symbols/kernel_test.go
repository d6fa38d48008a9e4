package symbols

import (
	"errors"
	"strings"
	"testing"
)

func TestKernelFunctionsAreNamedByTheSymbolBelow(t *testing.T) {
	k, err := readKernel(strings.NewReader(`ffffffff81000200 T second
ffffffff81000000 T first
ffffffff81000180 d data
ffffffffc0000000 t in_module	[veth]
`))
	if err != nil {
		t.Fatal(err)
	}
	for pc, want := range map[uint64]string{
		0xffffffff81000000: "first",
		0xffffffff810001ff: "first", // data is no code
		0xffffffff81000200: "second",
		0xffffffffc0000010: "in_module",
		0x1000:             "?",
	} {
		if got := k.Frame(pc).Function; got != want {
			t.Errorf("%#x: %s, not %s", pc, got, want)
		}
	}
}

func TestHiddenKernel(t *testing.T) {
	if _, err := readKernel(strings.NewReader("0000000000000000 T first\n")); !errors.Is(err, ErrKernelHidden) {
		t.Errorf("all zeros: %v", err)
	}
	if _, err := readKernel(strings.NewReader("ffffffff81000000 T first\nrubbish\n")); err == nil || !strings.Contains(err.Error(), "line 2") {
		t.Errorf("rubbish: %v", err)
	}
}
