package trial

import "strings"

// Alarm is something that is wrong with a run.
type Alarm struct {
	// Oracle says how it is known: one of this package's, or the name of a detector.
	Oracle string `json:"oracle"`
	// Object is what it is about, as kubectl names it; "" for nothing in particular.
	Object string `json:"object,omitempty"`
	Field  string `json:"field,omitempty"`
	// Expected is what the reference has, Got what the run has; "" where there is no such pair.
	Expected string `json:"expected,omitempty"`
	Got      string `json:"got,omitempty"`
	// What says it in a sentence.
	What string `json:"what"`

	Resource string `json:"resource,omitempty"` // with its group
}

// The oracles of this package.
const (
	oracleMissing   = "missing"     // an object is missing at the end
	oracleExtra     = "extra"       // an object is there beyond those of the reference
	oracleDiffers   = "differs"     // a field of an object differs at the end
	oracleRemade    = "remade"      // the operator deleted an object, and it was made again
	oracleTwice     = "twice"       // an object of a generated name was created once more
	oraclePanic     = "panic"       // a process panicked
	oracleExit      = "exit"        // a process ended by itself
	oracleLease     = "two-leaders" // a process wrote that had lost its lease
	oracleStorm     = "storm"       // writes without end
	oracleInvariant = "invariant "  // and its name
)

// Key is equal for alarms that say the same of other objects, runs or numbers.
func (a *Alarm) Key() string {
	return strings.TrimSpace(a.Oracle + " " + a.Resource + " " + general(a.Field))
}

// AtEnd says whether it is that the run ends otherwise than the reference.
func (a *Alarm) AtEnd() bool {
	return a.Oracle == oracleMissing || a.Oracle == oracleExtra || a.Oracle == oracleDiffers
}

// Grave is the order of alarms for people: the worst has the lowest number.
func (a *Alarm) Grave() int {
	switch a.Oracle {
	case oraclePanic, oracleExit:
		return 0
	case oracleRemade, oracleLease:
		return 1
	case oracleMissing, oracleExtra, oracleTwice:
		return 2
	case oracleDiffers, oracleStorm:
		return 3
	}
	if strings.HasPrefix(a.Oracle, oracleInvariant) {
		return 0
	}
	return 4
}

// Fate says whether the alarm is about whether an object is there.
func (a *Alarm) Fate() bool {
	switch a.Oracle {
	case oracleMissing, oracleExtra, oracleRemade, oracleTwice:
		return true
	}
	return false
}
