package clitest

import (
	"fmt"
	"regexp"
	"strings"
)

// Step is a command of a page, and what the page says that it prints.
type Step struct {
	// Line is where in the page it stands, from 1.
	Line    int
	Command string
	// Shown are the texts that the page shows of its output, in their order.
	Shown []string
}

// Steps are the commands in a page of Markdown, in their order. How a fenced block is marked says what is in it:
//
//	sh        a command a line; one that begins with #! is a script, and one command
//	console   commands after "$ ", each followed by what it prints
//	(none)    what the last command before it prints
//
// Others (text, yaml, sql, …) are no commands and no output. A command goes on in the next line after a backslash.
func Steps(page string) ([]Step, error) {
	var steps []Step
	var mark string
	var block []string
	inside, begin := false, 0
	for i, line := range strings.Split(page, "\n") {
		switch {
		case !strings.HasPrefix(line, "```"):
			block = append(block, line)
		case !inside:
			inside, begin, block, mark = true, i+2, nil, strings.TrimPrefix(line, "```")
		default:
			inside = false
			var err error
			if steps, err = appendBlock(steps, mark, begin, block); err != nil {
				return nil, err
			}
		}
	}
	if inside {
		return nil, fmt.Errorf("line %d: the block has no end", begin-1)
	}
	return steps, nil
}

func appendBlock(steps []Step, mark string, begin int, block []string) ([]Step, error) {
	switch mark {
	case "":
		text := strings.Join(block, "\n")
		if len(steps) == 0 {
			return nil, fmt.Errorf("line %d: output before any command: mark the block as text", begin-1)
		}
		if looksLikeCommands.MatchString(text) {
			return nil, fmt.Errorf("line %d: a block without a mark is output, and this has commands: mark it as sh", begin-1)
		}
		last := &steps[len(steps)-1]
		last.Shown = append(last.Shown, text)
	case "sh":
		if len(block) > 0 && strings.HasPrefix(block[0], "#!") {
			return append(steps, Step{Line: begin, Command: strings.Join(block, "\n") + "\n"}), nil
		}
		for i, c := range joined(block) {
			if c = strings.TrimSpace(c); c != "" && !strings.HasPrefix(c, "#") {
				steps = append(steps, Step{Line: begin + i, Command: c})
			}
		}
	case "console":
		var shown []string
		flush := func() {
			if text := strings.TrimSpace(strings.Join(shown, "\n")); text != "" {
				steps[len(steps)-1].Shown = append(steps[len(steps)-1].Shown, text)
			}
			shown = nil
		}
		for i, line := range joined(block) {
			command, is := strings.CutPrefix(line, "$ ")
			switch {
			case is:
				flush()
				steps = append(steps, Step{Line: begin + i, Command: strings.TrimSpace(command)})
			case len(steps) == 0 && strings.TrimSpace(line) != "":
				return nil, fmt.Errorf("line %d: output before any command", begin+i)
			default:
				shown = append(shown, line)
			}
		}
		flush()
	}
	return steps, nil
}

var looksLikeCommands = regexp.MustCompile(`(?m)^(bin/)?(opsim|oprec) [a-z]+ `)

// joined puts lines that go on after a backslash into one, and an empty one in the place of each that it took.
func joined(lines []string) []string {
	out := make([]string, len(lines))
	at := 0
	for i, line := range lines {
		if i > 0 && strings.HasSuffix(lines[i-1], `\`) {
			out[at] = strings.TrimSuffix(out[at], `\`) + strings.TrimSpace(line)
			continue
		}
		at = i
		out[at] = line
	}
	return out
}

// Prints says what of the text that a page shows is not in what a command printed, or nil. "…" stands for anything, also
// for lines. White space is as good as any other, so that a line may break elsewhere. Of numbers no page can know more
// than what Masked leaves of them.
func Prints(printed, shown string) error {
	rest := Masked(printed)
	for _, piece := range strings.Split(shown, "…") {
		masked := strings.TrimSpace(Masked(piece))
		i := strings.Index(rest, masked)
		if i < 0 {
			return fmt.Errorf("the page shows\n\t%s\nwhich is not in\n\t%s", masked, rest)
		}
		rest = rest[i+len(masked):]
	}
	return nil
}

var (
	whiteSpace = regexp.MustCompile(`\s+`)
	// moments, durations and hashes differ from run to run in their form.
	moment   = regexp.MustCompile(`\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z?|\d\d:\d\d:\d\d(\.\d+)?`)
	duration = regexp.MustCompile(`\b(\d+(\.\d+)?(h|ms|µs|m|s))+\b|\b\d+(\.\d+)? (ms|µs|s|min|h)\b`)
	hash     = regexp.MustCompile(`\b[0-9a-f]{8,}\b`)
	allOf    = regexp.MustCompile(`\b(\d+) of (\d+)\b`)
	number   = regexp.MustCompile(`\d[\d,]*(\.\d+)?`)
)

// Masked is a text without what differs between two runs: spaces, times, hashes and numbers. Zero stays, 100.0 % stays,
// and "7 of 7" is told from "6 of 7".
func Masked(text string) string {
	text = moment.ReplaceAllString(text, "#")
	text = duration.ReplaceAllString(text, "#")
	text = hash.ReplaceAllString(text, "#")
	text = allOf.ReplaceAllStringFunc(text, func(s string) string {
		if m := allOf.FindStringSubmatch(s); m[1] == m[2] {
			return "all of #"
		}
		return s
	})
	text = number.ReplaceAllStringFunc(text, func(s string) string {
		if s == "0" || s == "100.0" {
			return s
		}
		return "#"
	})
	return whiteSpace.ReplaceAllString(text, " ")
}
