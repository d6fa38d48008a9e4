package probes

import (
	"net/http"
	"os"
	"testing"

	"github.com/opreplay/opreplay/bpf"
	"github.com/opreplay/opreplay/bpf/events"
	"github.com/opreplay/opreplay/bpf/internal/guest"
	"github.com/opreplay/opreplay/bpf/symbols"
)

// Capabilities by their numbers in linux/capability.h.
const (
	capPerfmon = 38
	capBPF     = 39
)

// CAP_BPF and CAP_PERFMON are all that it takes to look at a process of one's own, by all that there is.
func TestTwoCapabilitiesAreEnough(t *testing.T) {
	if err := bpf.Check(false); err != nil && os.Getuid() == 0 {
		t.Skipf("SKIPPED: %v", err)
	}
	if !guest.Nobody(t, capBPF, capPerfmon) {
		return
	}
	processes, err := bpf.NewProcesses()
	if err != nil {
		t.Fatal(err)
	}
	guest.Closing(t, processes)
	self, err := symbols.OpenProcess(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	w, err := Attach(processes, self.Binary, "/proc/self/exe")
	if err != nil {
		t.Fatal(err)
	}
	guest.Closing(t, w)
	happenings, err := events.Watch(processes, events.Options{Refused: true, Forks: true, NoSpace: true, ReadLoops: true})
	if err != nil {
		t.Fatal(err)
	}
	guest.Closing(t, happenings)
	s, err := bpf.NewSampler(processes, bpf.SamplerOptions{Hz: 997})
	if err != nil {
		t.Fatal(err)
	}
	guest.Closing(t, s)
	if _, err := processes.Follow(os.Getpid()); err != nil {
		t.Fatal(err)
	}
	if _, err := http.Get("http://127.0.0.1:1/refused"); err == nil {
		t.Fatal("somebody listens on port 1")
	}
	if e, err := w.Next(t.Context()); err != nil || e.Path != "/refused" {
		t.Errorf("%+v, %v", e, err)
	}
	if e, err := happenings.Next(t.Context()); err != nil || e.Kind != events.Refused || e.Port != 1 {
		t.Errorf("%+v, %v", e, err)
	}
	go func() {
		for t.Context().Err() == nil { // so that there is something to sample
		}
	}()
	if x, err := s.Next(t.Context()); err != nil || x.PID != os.Getpid() {
		t.Errorf("%+v, %v", x, err)
	}
}
