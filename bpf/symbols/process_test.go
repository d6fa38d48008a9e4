package symbols

import (
	"fmt"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/opreplay/opreplay/bpf/internal/guest"
	"github.com/opreplay/opreplay/traces"
)

// A process tells how its own runtime names a stack; we look at it from outside. Position-independent
// programs lie elsewhere than they were linked for, at another place each time.
func TestAgreesWithTheRuntimeOfAProcess(t *testing.T) {
	for _, form := range forms {
		t.Run(form.name, func(t *testing.T) {
			pid, lines := startGuest(t, build(t, form.flags...))
			p, err := OpenProcess(pid)
			if err != nil {
				t.Fatal(err)
			}
			if p.Binary.PIE != (form.name == "pie") {
				t.Errorf("PIE is %t", p.Binary.PIE)
			}
			for i := range lines {
				got := asRuntime(t, lines[i], p)
				if n := len(got); i+n > len(lines) || strings.Join(got, "\n") != strings.Join(names(lines[i:i+n]), "\n") {
					t.Errorf("line %d:\n%s\nthe runtime says\n%s", i, strings.Join(got, "\n"), strings.Join(names(lines[i:]), "\n"))
				}
			}
			if p.Unresolved != 0 {
				t.Errorf("%d unresolved", p.Unresolved)
			}
		})
	}
}

// asRuntime prints frames at the address that LINE begins with as the guest does. runtime.Callers gives
// one address for each logical frame; the real one of an inlined call stands for it and for those around
// it, which are the guest's next lines.
func asRuntime(t *testing.T, line string, p *Process) (lines []string) {
	t.Helper()
	pc, _, _ := strings.Cut(line, "\t")
	addr, err := strconv.ParseUint(pc, 0, 64)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range p.Frames(addr - 1) {
		lines = append(lines, fmt.Sprintf("%s %s:%d", f.Function, f.File, f.Line))
	}
	return lines
}

// names is the guest's lines without their addresses.
func names(lines []string) (out []string) {
	for _, line := range lines {
		_, name, _ := strings.Cut(line, "\t")
		out = append(out, name)
	}
	return out
}

// startGuest runs the program and returns the lines of its first two stacks.
func startGuest(t *testing.T, path string) (pid int, lines []string) {
	t.Helper()
	g := guest.Start(t, path)
	for stacks := 0; stacks < 2; {
		if line := g.Line(); line != "" {
			lines = append(lines, line)
		} else {
			stacks++
		}
	}
	return g.PID, lines
}

// What is no program of Go's is named by file and offset, and is no stack that could not be resolved.
func TestForeignProcess(t *testing.T) {
	cat := guest.Start(t, "/bin/cat")
	cat.Say("up")
	cat.Line() // its own code is mapped now
	p, err := Foreign(cat.PID)
	if err != nil {
		t.Fatal(err)
	}
	var code uint64
	for _, m := range p.maps {
		if strings.HasSuffix(m.file, "/cat") {
			code = m.from
		}
	}
	frames := p.Stack([]uint64{code + 16, code + 32}, [2]uint64{})
	if len(frames) != 2 || !strings.HasPrefix(frames[0].Function, "cat+0x") || frames[0] == frames[1] || p.Unresolved != 0 {
		t.Errorf("%+v, %d unresolved", frames, p.Unresolved)
	}
}

// The vDSO, and nothing beside it, has its name; what has none is counted.
func TestVDSO(t *testing.T) {
	pid, _ := startGuest(t, build(t))
	p, err := OpenProcess(pid)
	if err != nil {
		t.Fatal(err)
	}
	maps, err := os.ReadFile(fmt.Sprintf("/proc/%d/maps", pid))
	if err != nil {
		t.Fatal(err)
	}
	line := regexp.MustCompile(`(?m)^([0-9a-f]+)-([0-9a-f]+) r-xp .* \[vdso\]$`).FindSubmatch(maps)
	if line == nil {
		t.Skip("SKIPPED: the kernel gives processes no vDSO (vdso=0)")
	}
	from, _ := strconv.ParseUint(string(line[1]), 16, 64)
	to, _ := strconv.ParseUint(string(line[2]), 16, 64)
	in, out := []traces.Frame{{Function: "[vdso]"}}, []traces.Frame{{Function: "?"}}
	for _, c := range []struct {
		pc      uint64
		want    []traces.Frame
		unknown int
	}{{from, in, 0}, {to - 1, in, 0}, {from - 1, out, 1}, {to, out, 2}} {
		if got := p.Frames(c.pc); !slices.Equal(got, c.want) || p.Unresolved != c.unknown {
			t.Errorf("%#x of %s: %+v, %d unresolved, not %+v, %d", c.pc, line[0], got, p.Unresolved, c.want, c.unknown)
		}
	}
}
