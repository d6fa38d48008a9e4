package explore

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/opreplay/opreplay/replay/trial"
)

// What a folder says of an exploration under way: how far it is, and the findings of the rows so far, a row that is being
// written left out; when its plans have been made small, what came of that.
func TestLook(t *testing.T) {
	dir := t.TempDir()
	if s, err := Look(dir); s != nil || err != nil {
		t.Fatalf("an empty folder is %+v, %v", s, err)
	}
	if err := begin(filepath.Join(dir, identityName), &identity{Budget: 5}); err != nil {
		t.Fatal(err)
	}
	s, err := Look(dir)
	if err != nil || s.Stage != Running || s.Planned != 0 || len(s.Rows) != 0 {
		t.Fatalf("before the unaltered run is over: %+v, %v", s, err)
	}
	c := &campaign{o: Options{Out: dir, Workers: 2}, result: &Result{Planned: 5, Before: 1}}
	c.progress.Began = time.Date(2026, time.March, 1, 12, 0, 0, 0, time.UTC)
	c.report(Running)
	before := Version(dir)
	lines := ""
	for i, r := range []Row{
		{Index: 3, Kind: "crash", Verdict: "alarms", Plan: "seed: 7\nfaults:\n- crash: {}\n", Threads: "fifo", Alarms: `[{"oracle":"missing","object":"services mq/orders","what":"there is no services mq/orders"}]`},
		{Index: 1, Kind: "hold", Verdict: "fine", Plan: "seed: 7\nfaults:\n- hold: {}\n", Threads: "fifo"},
		{Index: 2, Kind: "hold", Verdict: "fine"},
	} {
		text, err := json.Marshal(r)
		if err != nil {
			t.Fatal(err)
		}
		if lines += string(text) + "\n"; i == 2 {
			lines = lines[:len(lines)-9]
		}
	}
	if err := os.WriteFile(filepath.Join(dir, logName), []byte(lines), 0o600); err != nil {
		t.Fatal(err)
	}
	s, err = Look(dir)
	if err != nil || Version(dir) == before || !s.Began.Equal(c.progress.Began) || s.Planned != 5 || s.Before != 1 || s.Workers != 2 {
		t.Fatalf("%+v, %v", s, err)
	}
	if len(s.Rows) != 2 || s.Rows[0].Index != 1 || s.Rows[1].Index != 3 {
		t.Errorf("rows %+v", s.Rows)
	}
	if len(s.Findings) != 1 || s.Findings[0].What != "there is no services mq/orders" || !strings.Contains(s.Findings[0].Plan, "- crash") || s.Findings[0].Plans != 1 || s.Findings[0].Command != "" {
		t.Errorf("findings %+v", s.Findings)
	}
	c.result.Groups = []*Group{{Alarm: trial.Alarm{What: "a pod is left over"}, Index: -1}, {Alarm: trial.Alarm{What: "there is no services mq/orders"}, Index: 3, Plans: 1, Command: "opsim replay t"}}
	before = Version(dir)
	if err := os.Mkdir(filepath.Join(dir, "finding-1.optrace"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "finding-1.optrace", "manifest.json"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if Version(dir) == before {
		t.Error("a trace of a finding has come, and the version is the same")
	}
	c.report(Stopped) // while plans were made small: the rows say again what they say
	if s, err = Look(dir); err != nil || s.Stage != Stopped || len(s.Findings) != 2 || s.Findings[0].What != "a pod is left over" || s.Findings[1].Command != "" {
		t.Errorf("stopped %+v, %v", s, err)
	}
	c.report(Done)
	if s, err = Look(dir); err != nil || s.Stage != Done || len(s.Findings) != 2 || s.Findings[1].Command != "opsim replay t" {
		t.Errorf("in the end %+v, %v", s, err)
	}
}

// What an exploration does is said as it is, whether all plans were run or the time was over before.
func TestDoing(t *testing.T) {
	began := time.Date(2026, time.March, 1, 12, 0, 0, 0, time.UTC)
	rows := make([]Row, 3)
	for want, s := range map[string]Status{
		"Playing the unaltered run":                                                 {Progress: Progress{Stage: Running}},
		"Running plans, 2 workers":                                                  {Progress: Progress{Stage: Running, Planned: 3, Workers: 2, Began: began}},
		"All plans are run; making those of the findings small":                     {Progress: Progress{Stage: Shrinking, Planned: 3, Began: began}, Rows: rows},
		"The time is over; making the plans of the findings small":                  {Progress: Progress{Stage: Shrinking, Planned: 4, Began: began}, Rows: rows},
		"Stopped before its end; the same command goes on":                          {Progress: Progress{Stage: Stopped, Planned: 4, Began: began}, Rows: rows},
		"Done, for the time is over; the same command goes on with the other plans": {Progress: Progress{Stage: Done, Planned: 4, Began: began}, Rows: rows},
		"Done": {Progress: Progress{Stage: Done, Planned: 3, Began: began}, Rows: rows},
	} {
		if got := s.Doing(); got != want {
			t.Errorf("says %q, want %q", got, want)
		}
	}
}

func TestTally(t *testing.T) {
	got := Tally([]Row{{Kind: "hold", Verdict: "fine"}, {Kind: "crash", Verdict: "alarms"}, {Kind: "hold", Verdict: "failed"}, {Kind: "hold", Verdict: "fine"}})
	if want := []KindTally{{"hold", 2, 0, 1}, {"crash", 0, 1, 0}}; !slices.Equal(got, want) {
		t.Errorf("%+v, want %+v", got, want)
	}
}
