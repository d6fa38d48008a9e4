package cases

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"go.yaml.in/yaml/v3"

	"github.com/opreplay/opreplay/internal/cli"
)

// Update makes what came of a case what is expected of it, and leaves the rest of its file as it is. It returns
// what has changed, a line each; nothing is written if that is nothing.
func (c *Case) Update(r *Result) (changes []string, err error) {
	seen := r.Seen
	if c.Expect.Final == FinalAny || seen.Final == finalUnknown {
		seen.Final = FinalAny
	}
	seen.Findings = c.Expect.merged(seen.Findings)
	if changes = c.Expect.changes(&seen); len(changes) == 0 {
		return nil, nil
	}
	file := filepath.Join(c.Dir, FileName)
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, cli.CannotRun(err)
	}
	var doc yaml.Node
	if err := yaml.Unmarshal(text, &doc); err != nil {
		return nil, cli.Usagef("%s: %w", file, err)
	}
	if err := setExpect(doc.Content[0], &seen); err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	var out bytes.Buffer
	e := yaml.NewEncoder(&out)
	e.SetIndent(2)
	if err := e.Encode(&doc); err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	c.Expect = seen
	return changes, cli.CannotRun(os.WriteFile(file, out.Bytes(), 0o600))
}

// merged are the findings to expect: those that were and are there, and those that are there.
func (e *Expect) merged(seen []Finding) []Finding {
	all := []Finding{}
	for _, f := range e.Findings {
		if slices.ContainsFunc(seen, f.means) {
			all = append(all, f)
		}
	}
	for _, f := range seen {
		if !e.expected(f) {
			all = append(all, f)
		}
	}
	return all
}

// setExpect puts what is expected in its place in a case's file.
func setExpect(root *yaml.Node, e *Expect) error {
	var value yaml.Node
	if err := value.Encode(e); err != nil {
		return err
	}
	for i := 0; i+1 < len(value.Content); i += 2 {
		for _, item := range value.Content[i+1].Content {
			if item.Kind == yaml.MappingNode {
				item.Style |= yaml.FlowStyle // a finding a line
			}
		}
	}
	for i := 0; i+1 < len(root.Content); i += 2 {
		if root.Content[i].Value == "expect" {
			root.Content[i+1] = &value
			return nil
		}
	}
	root.Content = append(root.Content, &yaml.Node{Kind: yaml.ScalarNode, Value: "expect"}, &value)
	return nil
}

// changes are what there is to change for NEW to be expected.
func (e *Expect) changes(to *Expect) (all []string) {
	for _, f := range e.Findings {
		if !slices.Contains(to.Findings, f) {
			all = append(all, "- finding "+f.String())
		}
	}
	for _, f := range to.Findings {
		if !slices.Contains(e.Findings, f) {
			all = append(all, "+ finding "+f.String())
		}
	}
	for _, u := range e.Unmatched {
		if !slices.Contains(to.Unmatched, u) {
			all = append(all, "- meets nothing: "+u)
		}
	}
	for _, u := range to.Unmatched {
		if !slices.Contains(e.Unmatched, u) {
			all = append(all, "+ meets nothing: "+u)
		}
	}
	if e.Final != to.Final {
		all = append(all, fmt.Sprintf("~ final %q is now %q", e.Final, to.Final))
	}
	return all
}
