package bpf

import (
	"strings"
	"testing"
)

func TestMissingPrivilegesAreNamedInOneSentence(t *testing.T) {
	for _, c := range []struct {
		caps uint64
		peek bool
		want string // "" for none
	}{
		{1<<capBPF | 1<<capPerfmon, false, ""},
		{1 << capSysAdmin, false, ""},
		{1 << capBPF, false, "lacks CAP_PERFMON:"},
		{0, true, "lacks CAP_BPF and CAP_PERFMON and CAP_SYS_PTRACE (another user's process):"},
		{1 << capSysAdmin, true, "lacks CAP_SYS_PTRACE"},
	} {
		got := ""
		if err := missing(c.caps, c.peek); err != nil {
			got = err.Error()
		}
		if (got == "") != (c.want == "") || !strings.Contains(got, c.want) {
			t.Errorf("%#x: %q lacks %q", c.caps, got, c.want)
		}
	}
	caps, err := effectiveCaps(strings.NewReader("Name:\tx\nCapEff:\t000001ffffffffff\n"))
	if err != nil || caps != 0x1ffffffffff {
		t.Errorf("%#x, %v", caps, err)
	}
	if _, err := effectiveCaps(strings.NewReader("Name:\tx\n")); err == nil {
		t.Error("no capabilities, and no error")
	}
}

func TestDamagedSamples(t *testing.T) {
	whole := make([]byte, sampleHead+16)
	whole[20], whole[24] = 8, 8
	if s, err := parseSample(whole); err != nil || len(s.User) != 1 || len(s.Kernel) != 1 {
		t.Errorf("%v, %v", s, err)
	}
	for n := range whole {
		if _, err := parseSample(whole[:n]); err == nil {
			t.Errorf("%d of %d bytes were enough", n, len(whole))
		}
	}
}
