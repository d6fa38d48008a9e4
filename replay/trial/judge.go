package trial

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/opreplay/opreplay/analysis"
	"github.com/opreplay/opreplay/replay"
	"github.com/opreplay/opreplay/traces"
)

// judge asks every oracle, the gravest first.
func (r *Runner) judge(ctx context.Context, ref *Reference, p *played) ([]Alarm, error) {
	all := panics(p.story)
	all = append(all, exits(p)...)
	if p.story != ref.story {
		if p.skipped(ref) == 0 && !p.endless() && !p.lasting() {
			all = append(all, compare(ref.story, p.story, r.known())...)
		}
		all = append(all, counts(ref.story, p.story, r.known())...)
		all = append(all, storms(ref.story, p.story)...)
	}
	all = append(all, leaders(p)...)
	broken, err := r.invariants(p)
	if err != nil {
		return nil, err
	}
	all = append(all, broken...)
	if !p.lasting() { // else what they say may be the fault's own doing: a deletion that cannot end, a status that is gone
		found, err := r.detect(ctx, ref, p)
		if err != nil {
			return nil, err
		}
		all = append(all, found...)
	}
	// Of the fields that differ, a time says least.
	dull := func(a *Alarm) int {
		return len(a.Expected+a.Got) - len(strings.ReplaceAll(a.Expected+a.Got, aTime, ""))
	}
	slices.SortStableFunc(all, func(a, b Alarm) int { return cmp.Or(a.Grave()-b.Grave(), dull(&a)-dull(&b)) })
	return all, nil
}

// detect runs every detector of package analysis.
func (r *Runner) detect(ctx context.Context, ref *Reference, p *played) (all []Alarm, err error) {
	manifest := &traces.Manifest{Source: "sim", Run: &traces.Run{}}
	rows := func(yield func(traces.Record, error) bool) {
		for _, row := range p.rows.All {
			switch row.Table() {
			case traces.TableWatch, traces.TableRequests, traces.TableLogs:
				if !yield(row, nil) {
					return
				}
			default: // what the world knows of its run is no news of the cluster's
			}
		}
	}
	result, err := analysis.Records(ctx, rows, manifest, "", analysis.Options{Reproduce: "-"})
	if err != nil {
		return nil, err
	}
	end := time.Unix(0, p.story.last)
	for _, f := range result.Findings {
		if len(p.try.Plan.Faults) > 0 && f.Detector == byFault {
			continue
		}
		if len(p.try.Plan.Faults) > 0 && end.Sub(f.Last) > stillGoing && passes(ref, p, r.known(), &f) {
			continue
		}
		if len(p.try.Plan.Faults) > 0 && waited(ref, p, r.known(), &f) {
			continue
		}
		a := Alarm{Oracle: f.Detector, Field: f.Field, What: f.What + ": " + f.Cause}
		if len(f.Objects) > 0 {
			a.Object = f.Objects[0].String()
			a.Resource, _, _ = strings.Cut(a.Object, " ")
		}
		all = append(all, a)
	}
	return all, nil
}

// passing are detectors of what may be so for a while by the fault's own doing (who is shown an old version has its
// writes refused) and is wrong only if it does not end when the fault does.
var passing = []string{
	"conflict-storm", "self-loop", "churn", "retry-storm", "stale-read", "starvation", "amplification", "fight", "normalise",
}

// passes is whether a finding is of what may be so for a while. So it is with conditions: who is shown an older version
// writes what it finds there, and has set it right in the end.
func passes(ref *Reference, p *played, m *mask, f *analysis.Finding) bool {
	if f.Detector == "observed-generation" && f.Field == analysis.FieldConditions {
		return asInReference(ref, p, m, f.Objects)
	}
	return slices.Contains(passing, f.Detector)
}

// byFault is a detector of what only a plan makes show: every call is as slow as the plan has it, and who waits for it does so
// in the unaltered run as well.
const byFault = "no-deadline"

// stillGoing is how long before a run's end something was seen that goes on.
const stillGoing = 8 * time.Second

var changing = regexp.MustCompile(`0x[0-9a-f]+|\d+|<[^>]*>`)

// steady is the part of a message that is the same each time.
func steady(message string) string {
	return said(changing.ReplaceAllString(message, "#"), true)
}

func isPanic(message string) bool {
	return strings.HasPrefix(message, "panic:") || strings.HasPrefix(message, "fatal error:") || strings.Contains(message, "Observed a panic")
}

// panics are the distinct panics of a run's processes.
func panics(s *story) (all []Alarm) {
	seen := map[string]bool{}
	for i, l := range s.logs {
		if !isPanic(l.Message) || seen[steady(l.Message)] {
			continue
		}
		seen[steady(l.Message)] = true
		what := l.Process + " panicked: " + said(l.Message, true)
		if at := frame(s.logs[i+1:], l.Process); at != "" {
			what += ", " + at
		}
		all = append(all, Alarm{Oracle: oraclePanic, Field: steady(l.Message), Got: said(l.Message, true), What: what})
	}
	return all
}

// frame is the first place of the operator's own in the stack that follows a panic.
func frame(after []*traces.Log, process string) string {
	const most = 60 // lines
	for _, l := range after[:min(len(after), most)] {
		at := strings.TrimSpace(l.Message)
		if l.Process != process || !strings.Contains(at, ".go:") || strings.Contains(at, "runtime/") || strings.Contains(at, "k8s.io/") {
			continue
		}
		at, _, _ = strings.Cut(at, " +0x")
		return "at " + at
	}
	return ""
}

// exits are processes that ended by themselves, but for panics and for the loss of a lease.
func exits(p *played) (all []Alarm) {
	for _, e := range p.result.Ends {
		last := lastWords(p.story.logs, e)
		if slices.ContainsFunc(last, func(l *traces.Log) bool { return isPanic(l.Message) }) {
			continue
		}
		if p.story.leases && slices.ContainsFunc(last, aboutLease) {
			continue
		}
		a := Alarm{Oracle: oracleExit, Expected: "it runs", Got: e.Exit, What: e.Name + " ended by itself: " + e.Exit}
		var words replay.LastWords
		for _, l := range last {
			words.Hear(l)
		}
		if message := words.Message(); message != "" {
			a.Field, a.What = steady(message), a.What+"; its last words: "+said(words.String(), true)
		}
		all = append(all, a)
	}
	return all
}

// lastWords are what a process logged shortly before its end.
func lastWords(logs []*traces.Log, e replay.Ended) (last []*traces.Log) {
	const most = 50
	for _, l := range logs {
		if l.Process == e.Name && l.TS <= e.Time.UnixNano() && l.TS >= e.Time.Add(-time.Second).UnixNano() {
			last = append(last, l)
		}
	}
	return last[max(0, len(last)-most):]
}

func aboutLease(l *traces.Log) bool {
	text := strings.ToLower(l.Message + l.Fields)
	return strings.Contains(text, "leader") || strings.Contains(text, "lease")
}

// storms are objects that were written far more often than in the reference.
func storms(ref, run *story) (all []Alarm) {
	const factor, least = 10, 100
	for _, k := range slices.Sorted(maps.Keys(run.writes)) {
		n, was := run.writes[k], ref.writes[k]
		if n <= factor*was+least {
			continue
		}
		kind, _, _ := strings.Cut(k, " ")
		all = append(all, Alarm{
			Oracle: oracleStorm, Object: k, Resource: kind, Expected: times(was), Got: times(n),
			What: fmt.Sprintf("the operator wrote %s %s (%s in the reference)", k, times(n), times(was)),
		})
	}
	return all
}

// leaseGrace is how long a process may go on that has lost its lease and runs: it ends what it had begun.
const leaseGrace = 5 * time.Second

// leaders are writes of processes whose lease another one holds.
func leaders(p *played) (all []Alarm) {
	type hold struct {
		by    string
		since int64
	}
	holds := map[string]hold{}           // by lease
	once := map[string]map[string]bool{} // the leases that a process had, by process
	fresh := map[string]int64{}          // since when a process runs
	told := map[string]bool{}
	for _, row := range p.rows.All {
		switch r := row.(type) {
		case *traces.Decision:
			for _, n := range p.story.processes {
				if r.Kind == "process" && (r.Subject == "resume "+n || strings.HasPrefix(r.Subject, "start "+n)) {
					fresh[n] = r.TS
				}
			}
		case *traces.Request:
			if !slices.Contains(p.story.processes, r.Process) || !isWrite(r.Verb) || r.Code < 200 || r.Code > 299 {
				continue
			}
			if r.Resource == "leases" {
				if by := holder(r); by != "" && holds[r.Name].by != r.Process {
					holds[r.Name] = hold{r.Process, r.TS}
					if once[r.Process] == nil {
						once[r.Process] = map[string]bool{}
					}
					once[r.Process][r.Name] = true
				}
				continue
			}
			if idle(&r.Identity) || told[r.Process] {
				continue
			}
			for _, lease := range slices.Sorted(maps.Keys(once[r.Process])) {
				h := holds[lease]
				if h.by == r.Process || r.Start <= max(h.since, fresh[r.Process])+int64(leaseGrace) {
					continue
				}
				told[r.Process] = true
				all = append(all, Alarm{
					Oracle: oracleLease, Object: nameOf(&r.Identity), Resource: kindOf(&r.Identity),
					Expected: "only " + h.by + " writes", Got: r.Process + " writes too",
					What: fmt.Sprintf("%s wrote %s (%s) %s after %s had taken the lease %s from it", r.Process, nameOf(&r.Identity), r.Verb,
						time.Duration(r.Start-h.since).Round(time.Second), h.by, lease),
				})
				break
			}
		}
	}
	return all
}

// holder is who holds a lease by a write of it.
func holder(r *traces.Request) string {
	var o struct {
		Spec struct {
			HolderIdentity string `json:"holderIdentity"`
		} `json:"spec"`
	}
	_ = json.Unmarshal([]byte(r.RequestBody), &o) // what cannot be read names nobody
	return o.Spec.HolderIdentity
}
