package fault

import (
	"fmt"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

// Plan is a seed and an ordered list of faults.
type Plan struct {
	// Seed decides what the faults leave open, such as a latency between two bounds.
	Seed   uint64
	Faults []Fault
}

// Fault is one alteration: an *Answer, *Crash, *Cut, *Hold, *Latency, *Merge, *Pause, *Quota, *Restart, *Schema,
// *Skip, *Storage, *Token, *Unserve or *Webhook.
type Fault interface {
	// Kind is the fault's word in a plan.
	Kind() string
	// String is the fault's one-line form, as it stands in a plan after "- ".
	String() string
	// rule makes the fault's state for one run.
	rule(base) rule
}

// kinds are the faults that can be parsed.
var kinds = map[string]func(*fields) (Fault, error){
	"answer":  parseAnswer,
	"crash":   parseCrash,
	"cut":     parseCut,
	"hold":    parseHold,
	"latency": parseLatency,
	"merge":   parseMerge,
	"pause":   parsePause,
	"quota":   parseQuota,
	"restart": parseRestart,
	"schema":  parseSchema,
	"skip":    parseSkip,
	"storage": parseStorage,
	"token":   parseToken,
	"unserve": parseUnserve,
	"webhook": parseWebhook,
}

// NeedsWorld says whether a fault can be carried out only where time, the processes and each watch are the
// world's: in a run on the virtual clock.
func NeedsWorld(f Fault) bool {
	return !slices.Contains([]string{"answer", "hold", "latency", "quota", "storage", "token", "webhook"}, f.Kind())
}

// ProcessOf is the process that a fault names to do something to; "" for a fault that does nothing to processes.
func ProcessOf(f Fault) string {
	switch f := f.(type) {
	case *Crash:
		return f.Process
	case *Restart:
		return f.Process
	case *Pause:
		return f.Process
	}
	return ""
}

// Error is a mistake in a plan.
type Error struct {
	File string
	Line int
	Text string
}

// Error names the file, the line and what to do.
func (e *Error) Error() string { return fmt.Sprintf("%s:%d: %s", e.File, e.Line, e.Text) }

// BadInput marks the error as the user's input's fault.
func (e *Error) BadInput() bool { return true }

// ParseFile parses a plan that somebody has written: one that says nothing at all is a mistake.
func ParseFile(file string, text []byte) (*Plan, error) {
	if root, err := parseYAML(file, text); root == nil && err == nil {
		return nil, &Error{file, 1, "the file holds no plan; want seed and faults, or faults: [] for none"}
	}
	return Parse(file, text)
}

// Parse parses a plan; an empty text is the empty plan. FILE is for messages. Errors are of type *Error.
func Parse(file string, text []byte) (*Plan, error) {
	root, err := parseYAML(file, text)
	if err != nil {
		return nil, err
	}
	if root == nil {
		return &Plan{}, nil
	}
	top, err := mapping(file, root, "a plan", "seed", "faults")
	if err != nil {
		return nil, err
	}
	p := &Plan{}
	if err := top.uint("seed", &p.Seed); err != nil {
		return nil, err
	}
	list := top.take("faults")
	if list == nil || list.Tag == "!!null" {
		return p, nil
	}
	if list.Kind != yaml.SequenceNode {
		return nil, top.errorAt(list, "faults is no list; each fault is a line \"- KIND: {…}\"")
	}
	for _, item := range list.Content {
		f, err := parseFault(file, item)
		if err != nil {
			return nil, err
		}
		p.Faults = append(p.Faults, f)
	}
	return p, nil
}

// ParseFault parses a fault's one-line form.
func ParseFault(line string) (Fault, error) {
	root, err := parseYAML("fault", []byte(line))
	if err != nil {
		return nil, err
	}
	if root == nil {
		return nil, &Error{File: "fault", Line: 1, Text: "empty; want \"KIND: {…}\""}
	}
	return parseFault("fault", root)
}

func parseFault(file string, item *yaml.Node) (Fault, error) {
	if item.Kind != yaml.MappingNode || len(item.Content) != 2 {
		return nil, &Error{file, item.Line, "a fault has one kind, as in \"- hold: {…}\"; what belongs to it stands inside the braces or is indented below it"}
	}
	kind, body := item.Content[0].Value, item.Content[1]
	parse, ok := kinds[kind]
	if !ok {
		return nil, &Error{file, item.Line, fmt.Sprintf("unknown fault %q; known are %s", kind, known())}
	}
	f, err := mapping(file, body, kind)
	if err != nil {
		return nil, err
	}
	made, err := parse(f)
	if misspelt := f.rest(); misspelt != nil {
		return nil, misspelt // else what is missing because of it would be named
	}
	return made, err
}

func known() string {
	var names []string
	for k := range kinds {
		names = append(names, k)
	}
	slices.Sort(names)
	return strings.Join(names, ", ")
}

// String is the plan's textual form. It parses to an equal plan.
func (p *Plan) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "seed: %d\n", p.Seed)
	if len(p.Faults) == 0 {
		b.WriteString("faults: []\n")
		return b.String()
	}
	b.WriteString("faults:\n")
	for _, f := range p.Faults {
		fmt.Fprintf(&b, "- %s\n", f)
	}
	return b.String()
}
