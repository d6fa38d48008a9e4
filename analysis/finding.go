package analysis

import (
	"cmp"
	"strings"
	"time"

	"github.com/opreplay/opreplay/analysis/stats"
)

// Severity is how much a finding matters to whoever runs the operator.
type Severity string

// The severities, worst first.
const (
	// Error: the cluster's state is wrong or stays wrong, or load grows without end.
	Error Severity = "error"
	// Warning: the state comes right in the end, at a cost.
	Warning Severity = "warning"
)

// Certainty is how sure a finding is of its cause.
type Certainty string

// The certainties.
const (
	// Sure: every link of the explanation was recorded.
	Sure Certainty = "sure"
	// Likely: a link was inferred from versions, times and identities.
	Likely Certainty = "likely"
	// Possible: the trace is known to lack records in that time, or the writer could only be guessed.
	Possible Certainty = "possible"
)

// less is the next lower certainty.
func (c Certainty) less() Certainty {
	if c == Sure {
		return Likely
	}
	return Possible
}

// Object names an object in a finding.
type Object struct {
	Group     string `json:"group"`
	Version   string `json:"version"`
	Resource  string `json:"resource"`
	Namespace string `json:"namespace,omitempty"`
	Name      string `json:"name"`
	UID       string `json:"uid,omitempty"`
}

// String names the object as kubectl does: sites.web.example.com shop/front.
func (o Object) String() string {
	var b strings.Builder
	b.WriteString(resourceName(o.Group, o.Resource))
	b.WriteByte(' ')
	if o.Namespace != "" {
		b.WriteString(o.Namespace)
		b.WriteByte('/')
	}
	b.WriteString(o.Name)
	return b.String()
}

func resourceName(group, resource string) string {
	if group == "" {
		return resource
	}
	return resource + "." + group
}

// compare orders objects by name, for outputs that don't depend on the order of a map.
func (o Object) compare(p Object) int {
	return cmp.Or(cmp.Compare(o.Group, p.Group), cmp.Compare(o.Resource, p.Resource),
		cmp.Compare(o.Namespace, p.Namespace), cmp.Compare(o.Name, p.Name), cmp.Compare(o.UID, p.UID))
}

// Statistic is one measured value with its uncertainty.
type Statistic struct {
	Name  string  `json:"name"` // e.g. period
	Value float64 `json:"value"`
	Unit  string  `json:"unit"` // s, 1/s, share, versions, …
	// Low and High bound the value with the given Confidence. Where the data gives no bound, Confidence
	// is 0 and both are equal to Value.
	Low        float64 `json:"low"`
	High       float64 `json:"high"`
	Confidence float64 `json:"confidence"`
	// Unbounded says that the data gives no upper bound: High is the largest value seen.
	Unbounded bool `json:"unbounded,omitempty"`
	// N is the number of observations behind it.
	N int64 `json:"n"`
	// Method names the estimator with its source.
	Method string `json:"method"`
}

// Evidence is where in the trace to look: the first and the last few of Total places.
type Evidence struct {
	Total int64  `json:"total"`
	Items []Item `json:"items"`
	// Over is how many of the places fell into each of up to 64 equal spans of time, of OverSeconds each, from the first
	// place on; nil where Items has them all.
	Over        []int64 `json:"over,omitempty"`
	OverSeconds float64 `json:"overSeconds,omitempty"`
	// Period is the rhythm in which the places come, nil where they have none beyond chance.
	Period *Period `json:"period,omitempty"`
	// Backoff is how the delays between failures grow, of findings about retries.
	Backoff *Backoff `json:"backoff,omitempty"`
	// Changes are the times at which the rate of the places changed, beyond chance.
	Changes []RateChange `json:"changes,omitempty"`
}

// Period is a rhythm, with its significance.
type Period struct {
	Seconds float64 `json:"seconds"`
	// Strength is from 0 to 1: what Method measures.
	Strength float64 `json:"strength"`
	// P is the chance that places without a rhythm show one as strong, corrected for how many periods were tried.
	P float64 `json:"p"`
	// N is how many places, or groups of places close together, were looked at.
	N      int64  `json:"n"`
	Method string `json:"method"`

	times []float64 // of the places, seconds from the first
}

// Backoff is how delays between failures grow: the i-th, from 0 on, is about FirstSeconds·Ratio^i.
type Backoff struct {
	// DelaysSeconds are the first delays, in order.
	DelaysSeconds []float64 `json:"delaysSeconds"`
	FirstSeconds  float64   `json:"firstSeconds"`
	// Ratio is by which factor each delay exceeds the one before until they stop growing, from Low to High with 95 %
	// confidence; Fitted is how many delays that is.
	Ratio  float64 `json:"ratio"`
	Low    float64 `json:"low"`
	High   float64 `json:"high"`
	Fitted int64   `json:"fitted"`
	// Fit is R² of the growth on the logarithmic scale, from 0 to 1.
	Fit    float64 `json:"fit"`
	Method string  `json:"method"`
}

// RateChange is a time from which on the places came at another rate.
type RateChange struct {
	At time.Time `json:"at"`
	// Before and After are places a second, from the change before to this one, and from this one to the next.
	Before float64 `json:"before"`
	After  float64 `json:"after"`
	// P is the chance that one rate makes counts that differ as much, corrected for the times that it could have been.
	P float64 `json:"p"`
}

// Item is one place in the trace.
type Item struct {
	Seq  int64     `json:"seq"`
	Time time.Time `json:"time"`
	What string    `json:"what"`
}

// Effect is how large a fault is, for ranking: Value in Unit for people, Weight to compare faults of
// different kinds. Weight is the value in multiples of the threshold at which the detector speaks at all.
type Effect struct {
	Value  float64 `json:"value"`
	Unit   string  `json:"unit"`
	Weight float64 `json:"weight"`

	count bool // of things that happened or that there are, rather than a time, a rate or a ratio
}

// countOf is the effect of so many.
func countOf[N int | int64](n N, unit string, weight float64) Effect {
	return Effect{Value: float64(n), Unit: unit, Weight: weight, count: true}
}

// SurvivalPoint is one step of a Kaplan–Meier curve.
type SurvivalPoint = stats.SurvivalPoint

// Finding is one fault that a detector found.
type Finding struct {
	// ID is unique in the result: F1 is the finding that ranks first.
	ID       string `json:"id"`
	Detector string `json:"detector"`
	// Group is shared by findings with one cause; the ID of the one that explains the others.
	Group     string    `json:"group"`
	Severity  Severity  `json:"severity"`
	Certainty Certainty `json:"certainty"`
	// Process is the recorded process at fault, "" where it is nobody's in particular.
	Process string `json:"process,omitempty"`
	// Objects are the objects concerned, the worst first, not all when there are many: Total says how many.
	Objects []Object `json:"objects"`
	Total   int64    `json:"objectsTotal"`
	// What says what happens, Cause why, each in one sentence.
	What  string `json:"what"`
	Cause string `json:"cause"`
	// Field is the path that the fault is about ([*] for any element), Manager the field manager that wrote it.
	Field   string `json:"field,omitempty"`
	Manager string `json:"manager,omitempty"`
	// Stack is the row of the stacks table that made the call; 0 when none was recorded.
	Stack int64 `json:"stack,omitempty"`
	// Row is the seq of the request or the event that shows the fault best, from which its cause is followed back; a
	// detector may leave it 0 for the last place of its evidence.
	Row int64 `json:"row,omitempty"`
	// Code is the operator's line of code at fault, where a stack was recorded: file:line (function).
	Code string `json:"code,omitempty"`
	// Path is what led to Row, from it back: the shortest explanation that the trace has.
	Path []Step `json:"path,omitempty"`
	// Statistics: the first is the one that decided.
	Statistics []Statistic     `json:"statistics"`
	Survival   []SurvivalPoint `json:"survival,omitempty"`
	Evidence   Evidence        `json:"evidence"`
	First      time.Time       `json:"first"`
	Last       time.Time       `json:"last"`
	// DetectedAfterSeconds is the time to detection: how long after First, the first record of the fault, the trace had
	// shown enough for the detector to tell. A trace that ends there already has the finding.
	DetectedAfterSeconds float64 `json:"detectedAfterSeconds"`
	Effect               Effect  `json:"effect"`
	// Reproduce is the command that shows it again, "" where there is none.
	Reproduce string `json:"reproduce,omitempty"`

	told   int64   // when the trace had shown enough, in nanoseconds; 0 means Last
	absent absence // of what, if it had been there, there would be no fault
}

// Note is something worth knowing that is no fault: a cost, a habit, a conflict that was handled.
type Note struct {
	Detector string   `json:"detector"`
	Process  string   `json:"process,omitempty"`
	Objects  []Object `json:"objects,omitempty"`
	Total    int64    `json:"objectsTotal,omitempty"`
	What     string   `json:"what"`
	Field    string   `json:"field,omitempty"`
	Count    int64    `json:"count"`
}

func at(ns int64) time.Time { return time.Unix(0, ns).UTC() }
