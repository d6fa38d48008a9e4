package explore

import (
	"encoding/json"
	"os"
	"path/filepath"
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
	before, err := Look(dir)
	if err != nil {
		t.Fatal(err)
	}
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
	if err != nil || s.Version == before.Version || !s.Began.Equal(c.progress.Began) || s.Planned != 5 || s.Before != 1 || s.Workers != 2 {
		t.Fatalf("%+v, %v", s, err)
	}
	if len(s.Rows) != 2 || s.Rows[0].Index != 1 || s.Rows[1].Index != 3 {
		t.Errorf("rows %+v", s.Rows)
	}
	if len(s.Findings) != 1 || s.Findings[0].What != "there is no services mq/orders" || !strings.Contains(s.Findings[0].Plan, "- crash") || s.Findings[0].Plans != 1 || s.Findings[0].Command != "" {
		t.Errorf("findings %+v", s.Findings)
	}
	c.result.Groups = []*Group{{Alarm: trial.Alarm{What: "there is no services mq/orders"}, Index: 3, Plans: 1, Command: "opsim replay t"}}
	c.report(Done)
	if s, err = Look(dir); err != nil || s.Stage != Done || len(s.Findings) != 1 || s.Findings[0].Command != "opsim replay t" {
		t.Errorf("in the end %+v, %v", s, err)
	}
}
