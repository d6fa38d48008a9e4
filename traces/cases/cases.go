package cases

import (
	"embed"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
)

//go:embed *.optrace
var files embed.FS

// Case is one bundled trace.
type Case struct {
	// Name is the trace's, without its ending.
	Name string `json:"name"`
	// Operator is the binary that it was recorded from and is replayed against; with --fixed it is the
	// mended twin.
	Operator string `json:"operator"`
	// About is what is wrong with the operator, in a few words.
	About string `json:"about"`
	// Finding is the name of the detector that must report it, by a finding or, where it has notes alone, by a note. The
	// mended twin must have no finding at all.
	// "": it shows under altered timing only, and in a plain run neither twin has a finding.
	Finding string `json:"finding"`
}

// All is every case, in the order in which they are shown.
func All() []Case { return slices.Concat(Plain(), Found(), Strained(), Timed()) }

// Plain are the cases that opsim demo shows: every run shows their fault, and soon.
func Plain() []Case {
	return []Case{
		{"statusloop", "statusloop", "writes its status on every pass, with a fresh time", "self-loop"},
		{"statusrace", "statusrace", "two controllers write one status from stale copies", "lost-status"},
		{"orphanfinalizer", "orphanfinalizer", "gives up its clean-up when the owner is gone", "finalizer-hang"},
	}
}

// Found are further cases whose fault every run shows: what an operator writes is not what it should be.
func Found() []Case {
	return []Case{
		{"tugofwar", "tugofwar", "two of its controllers want one field", "fight"},
		{"prunedfield", "prunedfield", "sends a field that is never stored, over and over", "normalise"},
		{"wronglabel", "wronglabel", "labels its status with a generation that it was not made from", "observed-generation"},
		{"farowner", "farowner", "makes an object in another namespace the owner", "owner-reference"},
		{"oldpods", "oldpods", "changes the settings of pods that have read them", "environment"},
		{"alwaysready", "alwaysready", "says Ready of what is ready no more", "probe"},
		{"narrowschema", "narrowschema", "takes out of a definition what objects have", "schema"},
		{"unscraped", "unscraped", "has its metrics selected by a label that they do not have", "metrics"},
	}
}

// Strained are further cases whose fault every run shows: load, waiting, and what no retry mends.
func Strained() []Case {
	return []Case{
		{"retrystorm", "retrystorm", "tries again at a fixed delay for as long as its source is missing", "retry-storm"},
		{"panicloop", "panicloop", "panics on each retry when a cluster is gone that it takes to be there", "panic-loop"},
		{"missingkind", "missingkind", "uses a kind that its scheme does not have", "missing-kind"},
		{"starvation", "starvation", "waits in line for a worker, and keeps everybody else waiting", "starvation"},
		{"eventflood", "eventflood", "tells of each try by an Event of its own", "amplification"},
		{"openbreaker", "openbreaker", "has a circuit breaker that never closes", "circuit-breaker"},
		{"throttled", "throttled", "waits for its own client", "queue-wait"},
	}
}

// Timed are the cases whose fault shows under altered timing only: what was recorded is a run that went well.
func Timed() []Case {
	return []Case{
		{Name: "halfcreate", Operator: "halfcreate", About: "makes the second of two objects only where it made the first"},
		{Name: "staleclaim", Operator: "staleclaim", About: "deletes by name what belongs to a later object of that name"},
		{Name: "doublecreate", Operator: "doublecreate", About: "creates again what its cache does not show yet"},
		{Name: "earlyrelease", Operator: "earlyrelease", About: "lets go of an object when its cache shows no dependents"},
		{Name: "fatalconflict", Operator: "fatalconflict", About: "gives up for good when a write conflicts"},
		{Name: "droppedstatus", Operator: "droppedstatus", About: "drops a status value when its write is refused"},
		{Name: "missedsize", Operator: "missedsize", About: "takes its work from the changes that it sees"},
		{Name: "tombstone", Operator: "tombstone", About: "panics when a delete is only seen by its absence"},
		{Name: "twoleaders", Operator: "twoleaders", About: "goes on when it has lost its lease"},
	}
}

// Extract writes the case's trace into the folder DIR, which is made if need be, and returns its path. A trace
// that is there already is left as it is and is an error.
func (c Case) Extract(dir string) (string, error) {
	name := c.Name + ".optrace"
	trace := filepath.Join(dir, name)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", err
	}
	if err := os.Mkdir(trace, 0o700); err != nil {
		return "", err
	}
	return trace, fs.WalkDir(files, name, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return fmt.Errorf("bundled trace %s: %w", name, err)
		}
		if entry.IsDir() {
			return nil
		}
		content, err := files.ReadFile(path)
		if err != nil {
			return err
		}
		return os.WriteFile(filepath.Join(trace, entry.Name()), content, 0o600)
	})
}
