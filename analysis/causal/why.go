package causal

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/opreplay/opreplay/traces"
)

// Target is an object, or one version of it.
type Target struct {
	Group, Resource, Namespace, Name string
	// RV is the version; 0 means the newest that the trace shows.
	RV int64
	// Seq, if set, names a row instead.
	Seq int64
}

// ParseTarget reads a target as people write it: RESOURCE[.GROUP]/[NAMESPACE/]NAME[@RV], also with a space for the first
// slash as findings print it, or seq:N for a row of the trace.
func ParseTarget(s string) (Target, error) {
	if n, ok := strings.CutPrefix(s, "seq:"); ok {
		seq, err := strconv.ParseInt(n, 10, 64)
		if err != nil || seq <= 0 {
			return Target{}, fmt.Errorf("%q: want seq:N with the number of a row", s)
		}
		return Target{Seq: seq}, nil
	}
	var t Target
	object, version, has := strings.Cut(s, "@")
	if has {
		rv, err := strconv.ParseInt(version, 10, 64)
		if err != nil || rv <= 0 {
			return Target{}, fmt.Errorf("%q: want a resourceVersion after the @", s)
		}
		t.RV = rv
	}
	parts := strings.Split(strings.Replace(object, " ", "/", 1), "/")
	if len(parts) < 2 || len(parts) > 3 || slices.Contains(parts, "") {
		return Target{}, fmt.Errorf("%q: want RESOURCE[.GROUP]/[NAMESPACE/]NAME[@RV], e.g. pods/shop/web-0 or sites.web.example.com/shop/front@1012, or seq:N", s)
	}
	t.Resource, t.Group, _ = strings.Cut(parts[0], ".")
	t.Name = parts[len(parts)-1]
	if len(parts) == 3 {
		t.Namespace = parts[1]
	}
	return t, nil
}

func (t Target) String() string {
	if t.Seq != 0 {
		return fmt.Sprintf("seq:%d", t.Seq)
	}
	n := name(&traces.Identity{Group: t.Group, Resource: t.Resource, Namespace: t.Namespace, Name: t.Name})
	if t.RV != 0 {
		n += fmt.Sprintf("@%d", t.RV)
	}
	return n
}

// NotFoundError says that the trace has nothing of the target.
type NotFoundError struct {
	Target Target
	Trace  string
}

func (e *NotFoundError) Error() string {
	return fmt.Sprintf("%s: nothing of %s is in this trace", e.Trace, e.Target)
}

// Windows of rows in which causes are looked for, before and after the row that is explained: a reconcile's row comes at
// its end, which is after the writes that it made.
const (
	before = 200_000
	after  = 20_000
	// near is before for findings, of which there may be many.
	near = 20_000
)

// Why explains how an object came to be as a version shows it. A target that the trace doesn't have is a *NotFoundError.
func Why(ctx context.Context, t *traces.Trace, target Target) (*Chain, error) {
	seq := target.Seq
	if seq == 0 {
		var err error
		if seq, err = find(ctx, t, target); err != nil {
			return nil, err
		}
	}
	stacks, err := readStacks(ctx, t)
	if err != nil {
		return nil, err
	}
	g, err := read(ctx, t, stacks, seq-before, seq+after)
	if err != nil {
		return nil, err
	}
	c := &Chain{Schema: Schema, Trace: t.Dir(), Target: target.String(), Steps: g.Chain(seq)}
	if len(c.Steps) == 0 {
		return nil, &NotFoundError{Target: target, Trace: t.Dir()}
	}
	return c, nil
}

// find is the row that first shows the target.
func find(ctx context.Context, t *traces.Trace, target Target) (seq int64, err error) {
	var newest int64 = -1
	columns := []string{"group", "resource", "namespace", "name", "resource_version", "type"}
	for w, err := range traces.Rows[traces.WatchEvent](ctx, t, traces.Range{Columns: columns}) {
		if err != nil {
			return 0, err
		}
		if w.Name != target.Name || w.Resource != target.Resource || w.Group != target.Group || w.Namespace != target.Namespace {
			continue
		}
		switch {
		case target.RV == 0 && w.ResourceVersion > newest:
			seq, newest = w.Seq, w.ResourceVersion
		case target.RV != 0 && w.ResourceVersion == target.RV:
			return w.Seq, nil
		}
	}
	if seq == 0 {
		return 0, &NotFoundError{Target: target, Trace: t.Dir()}
	}
	return seq, nil
}

// columns are those that a graph looks at.
var columns = []string{
	"group", "version", "resource", "namespace", "name", "uid", "resource_version", "generation", "process", "type", "object", "writer",
	"start_seq", "start", "user_agent", "verb", "subresource", "query", "field_manager", "content_type", "code", "stack_id", "reconcile_id",
	"controller", "trigger", "outcome", "error", "requeue_after", "known_by",
}

// read makes the graph of a range of rows, with the stacks of the whole trace.
func read(ctx context.Context, t *traces.Trace, stacks map[int64][]traces.Frame, from, to int64) (*Graph, error) {
	g := NewGraph()
	g.stacks = stacks
	return g, g.add(ctx, t, traces.Range{
		Tables: []traces.Table{traces.TableWatch, traces.TableRequests, traces.TableReconciles}, Columns: columns, FromSeq: max(from, 1), ToSeq: to,
	})
}

// readStacks reads the stacks of a trace, which may be told before or after what refers to them.
func readStacks(ctx context.Context, t *traces.Trace) (map[int64][]traces.Frame, error) {
	g := NewGraph()
	return g.stacks, g.add(ctx, t, traces.Range{Tables: []traces.Table{traces.TableStacks}})
}

func (g *Graph) add(ctx context.Context, t *traces.Trace, r traces.Range) error {
	for rec, err := range t.Records(ctx, r) {
		if err != nil {
			return err
		}
		g.Add(rec)
	}
	return nil
}

// Explain is the chains of several rows, in their order; a row that causes nothing has none.
func Explain(ctx context.Context, t *traces.Trace, seqs []int64) ([][]Step, error) {
	out := make([][]Step, len(seqs))
	if len(seqs) == 0 {
		return out, nil
	}
	stacks, err := readStacks(ctx, t)
	if err != nil {
		return nil, err
	}
	order := make([]int, len(seqs))
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(a, b int) int { return int(seqs[a] - seqs[b]) })
	for i := 0; i < len(order); {
		// Rows that are near each other share a graph.
		j, from := i, seqs[order[i]]-near
		for j < len(order) && seqs[order[j]]-from <= 4*near {
			j++
		}
		g, err := read(ctx, t, stacks, from, seqs[order[j-1]]+after)
		if err != nil {
			return nil, err
		}
		for _, k := range order[i:j] {
			out[k] = g.Chain(seqs[k])
		}
		i = j
	}
	return out, nil
}
