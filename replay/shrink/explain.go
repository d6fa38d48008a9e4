package shrink

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/opreplay/opreplay/internal/cli"
	"github.com/opreplay/opreplay/replay/trial"
	"github.com/opreplay/opreplay/traces"
)

// Story is what happened in a failing run, beside what happened in the reference.
type Story struct {
	// Words say it in sentences.
	Words []string `json:"words"`
	// Steps are those of both runs around the first difference that matters, in order.
	Steps []Step `json:"steps"`
	// More is the time beyond the settling that the failing run was given.
	More time.Duration `json:"moreNanoseconds,omitempty"`
	// Before and After are how many steps lie before and after those.
	Before int `json:"before"`
	After  int `json:"after"`
}

// Step is a step that both runs made, or one of them. An empty text is that of a run that did not make it.
type Step struct {
	Reference string `json:"reference,omitempty"`
	Altered   string `json:"altered,omitempty"`
	// ReferenceAt and At are when, since the operator's first call, in either run.
	ReferenceAt time.Duration `json:"referenceAtNanoseconds,omitempty"`
	At          time.Duration `json:"atNanoseconds,omitempty"`
	Fault       bool          `json:"fault,omitempty"`
}

// said is a step of one run in words.
type said struct {
	at    time.Duration
	text  string
	fault bool
}

// Bounds on a Story.
const (
	stepsBefore = 3
	stepsAfter  = 22
	mostAligned = 2000 // steps of a run
)

// Explain plays the small plan once more and sets it beside the reference. Nothing else may be run meanwhile.
func Explain(ctx context.Context, r *trial.Runner, t trial.Try, alarm trial.Alarm) (*Story, error) {
	ref, err := r.Reference(ctx, t.Without)
	if err != nil {
		return nil, err
	}
	out, err := r.Run(ctx, t)
	if err != nil {
		return nil, err
	}
	names := slices.Clone(r.Session().Names())
	for i := 2; i <= t.Replicas; i++ {
		for _, n := range r.Session().Names() {
			names = append(names, fmt.Sprintf("%s-%d", n, i))
		}
	}
	about := newTopic(ref.Rows, out.Rows, alarm)
	a, b := steps(ref.Rows, names, about), steps(out.Rows, names, about)
	s := window(align(a, b))
	s.Words, s.More = words(a, b, s, t, alarm), out.More
	return s, nil
}

// topic is what a story is about: an object and those that are named like it or name it.
type topic struct {
	name   string
	others map[string]bool // names of objects whose texts hold it, or that its own texts hold
}

func newTopic(ref, run []traces.Record, alarm trial.Alarm) *topic {
	_, name, ok := strings.Cut(alarm.Object, " ")
	if !ok {
		return nil
	}
	name = strings.TrimRight(name[strings.LastIndex(name, "/")+1:], "*-")
	t := &topic{name: name, others: map[string]bool{}}
	for _, rows := range [][]traces.Record{ref, run} {
		for _, row := range rows {
			if w, ok := row.(*traces.WatchEvent); ok && w.Name != "" && len(w.Name) > 1 {
				if strings.Contains(w.Object, `"`+name+`"`) || strings.Contains(w.Name, name) {
					t.others[w.Name] = true
				}
			}
		}
	}
	return t
}

func (t *topic) means(name string) bool {
	return t == nil || strings.Contains(name, t.name) || strings.Contains(t.name, name) && name != "" || t.others[name]
}

// steps are those of a run that a story may speak of: changes by anybody, what the operator was told, what failed,
// what the plan did, what the operator complained of.
func steps(rows []traces.Record, operators []string, about *topic) (all []said) {
	zero := int64(0)
	initial := map[string]int64{}
	for _, row := range rows {
		switch r := row.(type) {
		case *traces.Request:
			if slices.Contains(operators, r.Process) && (zero == 0 || r.Start < zero) {
				zero = r.Start
			}
		case *traces.WatchEvent:
			if r.Type == string(traces.Bookmark) && strings.Contains(r.Object, "initial-events-end") {
				initial[r.Stream] = r.Seq
			}
		}
	}
	heard, repeated := map[string]bool{}, map[string]int{}
	for _, row := range rows {
		text, fault := "", false
		switch r := row.(type) {
		case *traces.Request:
			text = request(r, operators, about)
		case *traces.WatchEvent:
			id := fmt.Sprint(r.Process, r.Type, r.UID, r.ResourceVersion)
			if slices.Contains(operators, r.Process) && r.Seq > initial[r.Stream] && !heard[id] && about.means(r.Name) && r.Resource != "leases" {
				heard[id] = true
				text = event(r)
			}
		case *traces.Decision:
			if (r.Kind == "fault" || r.Kind == "process") && !strings.HasPrefix(r.Subject, "end ") && zero != 0 {
				text, fault = r.Subject, r.Rule != ""
			} else if r.Kind == "answer" && (strings.Contains(r.Subject, ": lost") || strings.Contains(r.Subject, " instead")) {
				text, fault = "answered by the plan: "+r.Subject, true
			}
		case *traces.Log:
			if r.Level == "error" || r.Level == "fatal" || strings.HasPrefix(r.Message, "panic:") {
				text = r.Process + " logs: " + short(r.Message)
			}
		}
		if fault || strings.Contains(text, " logs: ") {
			if repeated[text]++; repeated[text] > 2 {
				continue // what is refused again and again, and complained of
			}
		}
		if text != "" {
			all = append(all, said{max(time.Duration(row.Header().TS-zero), 0), text, fault})
		}
		if len(all) == mostAligned {
			break
		}
	}
	return all
}

// request is a call in words, "" for one that the story does not speak of.
func request(r *traces.Request, operators []string, about *topic) string {
	write := r.Verb == "create" || r.Verb == "update" || r.Verb == "patch" || r.Verb == "delete"
	if !write || !about.means(r.Name) || r.Resource == "leases" || r.Resource == "events" {
		return ""
	}
	who := r.Process
	if !slices.Contains(operators, who) {
		who, _, _ = strings.Cut(r.UserAgent, "/")
		if who == "" {
			who = r.User
		}
	}
	what := r.Resource + "/" + r.Name
	if r.Subresource != "" {
		what += "/" + r.Subresource
	}
	how := ""
	if r.Code < 200 || r.Code > 299 {
		how = fmt.Sprintf(": %d %s", r.Code, r.Reason)
		if r.Code == 0 {
			how = ": no answer"
		}
	}
	return strings.TrimSpace(who + " " + past(r.Verb) + " " + what + how)
}

func past(verb string) string {
	switch verb {
	case "create":
		return "creates"
	case "update":
		return "updates"
	case "patch":
		return "patches"
	}
	return "deletes"
}

func event(w *traces.WatchEvent) string {
	return fmt.Sprintf("%s hears: %s %s/%s", w.Process, w.Type, w.Resource, w.Name)
}

func short(s string) string {
	const most = 70
	if r := []rune(s); len(r) > most {
		return string(r[:most]) + "…"
	}
	return s
}

// align sets equal steps of both runs beside each other: a longest common subsequence.
func align(a, b []said) (all []Step) {
	n, m := len(a), len(b)
	best := make([][]int32, n+1)
	for i := range best {
		best[i] = make([]int32, m+1)
	}
	for i := n - 1; i >= 0; i-- {
		for j := m - 1; j >= 0; j-- {
			if a[i].text == b[j].text && !b[j].fault {
				best[i][j] = best[i+1][j+1] + 1
			} else {
				best[i][j] = max(best[i+1][j], best[i][j+1])
			}
		}
	}
	i, j := 0, 0
	for i < n || j < m {
		switch {
		case i < n && j < m && a[i].text == b[j].text && !b[j].fault:
			all = append(all, Step{Reference: a[i].text, ReferenceAt: a[i].at, Altered: b[j].text, At: b[j].at})
			i, j = i+1, j+1
		case j < m && (i == n || b[j].fault || best[i][j+1] > best[i+1][j]):
			all = append(all, Step{Altered: b[j].text, At: b[j].at, Fault: b[j].fault})
			j++
		default:
			all = append(all, Step{Reference: a[i].text, ReferenceAt: a[i].at})
			i++
		}
	}
	return all
}

// window is what is around the first difference: the first step of the plan, else the first that only one run made.
func window(all []Step) *Story {
	differs := func(s Step) bool { return s.Reference != s.Altered }
	first := slices.IndexFunc(all, func(s Step) bool { return s.Fault })
	if i := slices.IndexFunc(all, differs); first < 0 || i >= 0 && i < first {
		first = i
	}
	if first < 0 {
		first = len(all)
	}
	from := max(0, first-stepsBefore)
	to := min(len(all), first+stepsAfter)
	return &Story{Steps: all[from:to], Before: from, After: len(all) - to}
}

// words say what the story shows.
func words(a, b []said, s *Story, t trial.Try, alarm trial.Alarm) (all []string) {
	for _, f := range t.Plan.Faults {
		all = append(all, "The plan: "+f.String()+".")
	}
	i := slices.IndexFunc(s.Steps, func(x Step) bool { return x.Reference != x.Altered })
	if i < 0 {
		return append(all, "Both runs make the same steps as far as they are shown here; in the end: "+alarm.What+".")
	}
	all = append(all, fmt.Sprintf("Until %s after the operator's first call both runs do the same.", max(s.Steps[i].At, s.Steps[i].ReferenceAt).Round(time.Millisecond)))
	if only := onlyIn(a, b); len(only) > 0 {
		all = append(all, "Only in the reference: "+strings.Join(only, "; ")+".")
	}
	if only := onlyIn(b, a); len(only) > 0 {
		all = append(all, "Only in this run: "+strings.Join(only, "; ")+".")
	}
	return append(all, "In the end: "+alarm.What+".")
}

// onlyIn are the first few changes that one run made more often than the other.
func onlyIn(a, b []said) (only []string) {
	const most = 3
	count := map[string]int{}
	for _, x := range b {
		count[x.text]++
	}
	for _, x := range a {
		if count[x.text]--; count[x.text] >= 0 || x.fault || strings.Contains(x.text, " hears: ") || strings.HasPrefix(x.text, "start ") {
			continue
		}
		if only = append(only, x.text); len(only) == most {
			break
		}
	}
	return only
}

// Text prints the story for a person.
func (s *Story) Text(w io.Writer) error {
	p := &cli.Printer{W: w}
	for _, x := range s.Words {
		p.Line("%s", x)
	}
	p.Line("")
	const width = 56
	row := func(refAt, ref, mark, at, altered string) {
		p.Line("%s", strings.TrimRight(fmt.Sprintf("%9s  %-*s %s%9s  %s", refAt, width, ref, mark, at, altered), " "))
	}
	row("TIME", "REFERENCE", " ", "TIME", "ALTERED RUN")
	if s.Before > 0 {
		row("", "… "+cli.Count(s.Before, "step")+" that both made", " ", "", "")
	}
	for _, x := range s.Steps {
		mark := " "
		if x.Fault {
			mark = "!"
		}
		row(since(x.ReferenceAt, x.Reference), cut(x.Reference, width), mark, since(x.At, x.Altered), cut(x.Altered, width+20))
	}
	if s.After > 0 {
		row("", fmt.Sprintf("… %d more", s.After), " ", "", "")
	}
	return p.Err
}

// since is a step's time as it is printed; "" for one that was not made.
func since(at time.Duration, what string) string {
	if what == "" {
		return ""
	}
	return "+" + at.Round(time.Millisecond).String()
}

func cut(s string, n int) string {
	if r := []rune(s); len(r) > n {
		return string(r[:n-1]) + "…"
	}
	return s
}
