package explore

import (
	"encoding/json"
	"testing"

	"github.com/opreplay/opreplay/replay/trial"
)

func alarming(t *testing.T, index int32, plan string, alarms ...trial.Alarm) Row {
	t.Helper()
	text, err := json.Marshal(alarms)
	if err != nil {
		t.Fatal(err)
	}
	return Row{Index: index, Plan: plan, Threads: "fifo", Procs: 1, Replicas: 1, Alarms: string(text)}
}

// Alarms of one run of one fault have one cause; so has what only shows beside them; what shows alone is another one.
func TestGroups(t *testing.T) {
	missing := trial.Alarm{Oracle: "missing", Resource: "services", Object: "services a/x"}
	other := trial.Alarm{Oracle: "missing", Resource: "services", Object: "services a/y"}
	field := trial.Alarm{Oracle: "differs", Resource: "brokers", Object: "brokers a/x", Field: "status.ready"}
	late := trial.Alarm{Oracle: "self-loop", Resource: "brokers"}
	exit := trial.Alarm{Oracle: "exit", Field: "no such thing"}
	remade := trial.Alarm{Oracle: "remade", Resource: "services", Object: "services a/x"}
	const one, two = "seed: 0\nfaults:\n- a: {}\n", "seed: 0\nfaults:\n- a: {}\n- b: {}\n"
	groups, err := group([]Row{
		alarming(t, 0, two, other, late),
		alarming(t, 1, one, missing, field),
		alarming(t, 2, one, field),
		alarming(t, 3, one, exit),
		alarming(t, 4, one, remade),
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(groups) != 2 {
		t.Fatalf("%d groups, want two: %+v", len(groups), groups)
	}
	if g := groups[0]; g.Alarm.Oracle != "exit" || g.Plans != 1 || g.Index != 3 {
		t.Errorf("the gravest is %+v, want the exit", g)
	}
	g := groups[1]
	if g.Index != 1 || g.Plans != 4 || g.Alarm.Object != "services a/x" || g.Alarm.Oracle != "missing" {
		t.Errorf("the other is %+v, want that of plan 1, of one fault, in 4 plans", g)
	}
	if len(g.Also) != 3 { // the field, what became of another Service, the loop
		t.Errorf("also %+v", g.Also)
	}
}

func TestMergeRefusesOtherExplorations(t *testing.T) {
	a, b := t.TempDir(), t.TempDir()
	for dir, plan := range map[string]string{a: "x", b: "y"} {
		if err := WriteTable(dir+"/"+TableName, []Row{{Index: 0, Plan: plan}}); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := Merge([]string{a, b}); err == nil {
		t.Error("two tables that say different things of one plan were merged")
	}
	if _, err := Merge([]string{a, t.TempDir()}); err == nil {
		t.Error("a folder without a table was merged")
	}
}
