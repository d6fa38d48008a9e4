package bpf

import (
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/opreplay/opreplay/bpf/internal/guest"
	"github.com/opreplay/opreplay/bpf/symbols"
	"github.com/opreplay/opreplay/traces"
)

// processes skips where the kernel does not let us, and says what is missing.
func processes(t testing.TB) *Processes {
	t.Helper()
	if err := Check(false); err != nil {
		t.Skipf("SKIPPED: %v", err)
	}
	p, err := NewProcesses()
	if err != nil {
		t.Fatal(err)
	}
	guest.Closing(t, p)
	return p
}

func sampler(t testing.TB, o SamplerOptions) (*Processes, *Sampler) {
	t.Helper()
	p := processes(t)
	s, err := NewSampler(p, o)
	if err != nil {
		t.Fatal(err)
	}
	guest.Closing(t, s)
	return p, s
}

// spin runs testdata/spin, stripped, and returns its process and the goroutine that burns.
func spin(t testing.TB, flags ...string) (pid int, goid uint64) {
	t.Helper()
	return burning(t, guest.Start(t, guest.Build(t, "./testdata/spin", append(flags, guest.Stripped)...)))
}

// burning waits for testdata/spin to burn, and returns its process and the goroutine that does.
func burning(t testing.TB, g *guest.Process) (pid int, goid uint64) {
	t.Helper()
	goid, err := strconv.ParseUint(g.Line(), 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return g.PID, goid
}

// The processor time of a stripped program is found where it is burnt: goroutine, function, inlined callee,
// and a whole stack up to the goroutine's root.
func TestSamplesNameTheGoroutineAndTheFunctionThatBurns(t *testing.T) {
	for name, flags := range map[string][]string{"static": nil, "pie": {"-buildmode=pie"}} {
		t.Run(name, func(t *testing.T) {
			processes, s := sampler(t, SamplerOptions{Hz: 997})
			pid, goid := spin(t, flags...)
			p, err := symbols.OpenProcess(pid)
			if err != nil {
				t.Fatal(err)
			}
			known, err := processes.Follow(pid)
			if err != nil {
				t.Fatal(err)
			}
			if !known {
				t.Fatalf("the goroutines of %s are not known", symbols.GoVersion(pid))
			}
			const want = 300
			burning, own, whole, inlined := 0, 0, 0, 0
			for range want {
				x, err := s.Next(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				if x.PID != pid {
					t.Fatalf("a sample of process %d, which nobody follows", x.PID)
				}
				var names []string
				for _, f := range p.Stack(x.User, x.Top) {
					names = append(names, f.Function)
				}
				stack := strings.Join(names, " ")
				if x.GoID == goid && !strings.Contains(stack, "asyncPreempt") {
					own++
				}
				if !strings.Contains(stack, "main.work main.main.func2 runtime.goexit") {
					continue
				}
				if burning++; x.GoID == goid {
					whole++
				}
				if strings.HasPrefix(stack, "main.mix main.work") {
					inlined++
				}
			}
			// The rest is the runtime's own work, of which there is the more, the more often others take the processor.
			if burning*100 < own*95 || own < want/2 {
				t.Errorf("%d of the goroutine's %d samples, of %d, lie in main.work", burning, own, want)
			}
			if whole != burning {
				t.Errorf("%d of %d samples in main.work are of goroutine %d", whole, burning, goid)
			}
			if inlined < want/20 {
				t.Errorf("%d of %d samples show main.mix, inlined", inlined, want)
			}
		})
	}
}

// Who reads the clock over and over is mostly in the vDSO, which has a name and is no stack that could not be resolved.
func TestSamplesOfTheClock(t *testing.T) {
	processes, s := sampler(t, SamplerOptions{Hz: 997})
	pid, goid := burning(t, guest.Start(t, guest.Build(t, "./testdata/spin", guest.Stripped), "clock"))
	p, err := symbols.OpenProcess(pid)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := processes.Follow(pid); err != nil {
		t.Fatal(err)
	}
	const want = 300
	reads := 0
	for own := 0; own < want; {
		x, err := s.Next(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		stack := p.Stack(x.User, x.Top)
		if x.GoID != goid {
			continue
		}
		if own++; stack[0].Function != "[vdso]" {
			continue
		}
		reads++
		if !slices.ContainsFunc(stack, func(f traces.Frame) bool { return f.Function == "main.clock" }) {
			t.Errorf("nobody knows who reads the clock in %v", stack)
		}
	}
	if reads < want/2 || p.Unresolved != 0 {
		t.Errorf("%d of %d samples lie in the vDSO, %d frames are not known", reads, want, p.Unresolved)
	}
}

func TestNobodyIsSampledWhoIsNotFollowed(t *testing.T) {
	processes, s := sampler(t, SamplerOptions{Hz: 997})
	stranger, _ := spin(t)
	pid, _ := spin(t)
	if _, err := processes.Follow(stranger); err != nil {
		t.Fatal(err)
	}
	if err := processes.Unfollow(stranger); err != nil {
		t.Fatal(err)
	}
	if err := processes.Unfollow(stranger); err != nil {
		t.Errorf("a second time: %v", err)
	}
	unfollowed := Monotonic()
	if _, err := processes.Follow(pid); err != nil {
		t.Fatal(err)
	}
	for n := 0; n < 100; {
		x, err := s.Next(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if x.PID != pid && x.Time > unfollowed {
			t.Fatalf("a sample of process %d, which nobody follows", x.PID)
		}
		if x.PID == pid {
			n++
		}
	}
}

// Nobody reads: the ring fills, and what it has no room for is counted. What is read and what is lost is all
// there was.
func TestLostSamplesAreCounted(t *testing.T) {
	processes, s := sampler(t, SamplerOptions{Hz: 10000, ringBytes: 1 << 16})
	pid, _ := spin(t)
	if _, err := processes.Follow(pid); err != nil {
		t.Fatal(err)
	}
	for {
		_, lost, err := s.Counted()
		if err != nil {
			t.Fatal(err)
		}
		if lost >= 100 {
			break
		}
		if t.Context().Err() != nil {
			t.Fatal(t.Context().Err())
		}
	}
	if err := processes.Unfollow(pid); err != nil {
		t.Fatal(err)
	}
	taken, lost, err := s.Counted()
	if err != nil {
		t.Fatal(err)
	}
	for range taken - lost {
		if _, err := s.Next(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if n := s.ring.Pending(); n != 0 {
		t.Errorf("%d bytes of samples more than were taken", n)
	}
}

func TestOptions(t *testing.T) {
	if _, err := NewSampler(nil, SamplerOptions{Hz: -1}); err == nil || !strings.Contains(err.Error(), "between 1 and 10,000") {
		t.Errorf("-1 Hz: %v", err)
	}
}
