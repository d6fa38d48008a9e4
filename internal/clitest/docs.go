package clitest

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/spf13/cobra"
)

// DocumentedCommands holds every command line of NAME in the Markdown pages below the repository (README.md, docs/,
// notebooks/) and in the examples of the commands' own help against the commands as they are: each names a command that
// exists, flags that it has, with values that they take, and as many arguments as it wants. Of what stands in a sentence,
// in part or without its arguments, command and flags must be there. Nothing is run.
func DocumentedCommands(t *testing.T, name string, root func() *cobra.Command) {
	t.Helper()
	found := 0
	for place, text := range pages(t, root()) {
		for _, line := range commandLines(text, name) {
			found++
			if err := accepts(root(), line); err != nil {
				t.Errorf("%s: %s %s: %v", place, name, strings.Join(line, " "), err)
			}
		}
	}
	for place, text := range prosePages(t) {
		for _, m := range regexp.MustCompile("`"+name+" ([a-z][^`]*)`").FindAllStringSubmatch(text, -1) {
			if err := mentions(root(), shellWords(m[1])); err != nil {
				t.Errorf("%s: %s: %v", place, m[0], err)
			}
		}
	}
	if found < 10 {
		t.Errorf("%d commands found in the pages: are they looked for in the right place?", found)
	}
}

// pages are the texts that have commands in them: code blocks of Markdown, and examples.
func pages(t *testing.T, root *cobra.Command) map[string]string {
	t.Helper()
	all := map[string]string{}
	block := regexp.MustCompile("(?ms)^```[a-z]*\n(.*?)^```")
	for file, text := range markdown(t) {
		for i, b := range block.FindAllStringSubmatch(text, -1) {
			all[fmt.Sprintf("%s, code block %d", file, i+1)] = b[1]
		}
	}
	var walk func(*cobra.Command)
	walk = func(c *cobra.Command) {
		all["help of "+c.CommandPath()] = c.Example
		for _, sub := range c.Commands() {
			walk(sub)
		}
	}
	walk(root)
	return all
}

// markdown is the text of each page.
func markdown(t *testing.T) map[string]string {
	t.Helper()
	all := map[string]string{}
	for _, pattern := range []string{"*.md", "docs/*.md", "docs/findings/*.md", "notebooks/*.md", "examples/operators/*.md"} {
		files, err := filepath.Glob(filepath.Join("../..", pattern))
		if err != nil || len(files) == 0 {
			t.Fatalf("no pages %s: %v", pattern, err)
		}
		for _, file := range files {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			all[file] = string(text)
		}
	}
	return all
}

// prosePages is the text of each page without what is in fences.
func prosePages(t *testing.T) map[string]string {
	all := markdown(t)
	for file, text := range all {
		all[file] = fenced.ReplaceAllString(text, "")
	}
	return all
}

var fenced = regexp.MustCompile("(?ms)^```.*?^```$")

// mentions is what a command has against words about it.
func mentions(root *cobra.Command, words []string) error {
	cmd, rest, err := root.Find(words)
	if err != nil {
		return err
	}
	for _, word := range rest {
		name, _, _ := strings.Cut(word, "=")
		if name == "--" {
			break // the rest is another program's
		}
		if flag, long := strings.CutPrefix(name, "--"); long && cmd.Flag(flag) == nil {
			return fmt.Errorf("there is no flag %s", name)
		}
	}
	return nil
}

// commandLines are the words after NAME of each line that calls it.
func commandLines(text, name string) (all [][]string) {
	text = regexp.MustCompile(`\$\([^)]*\)`).ReplaceAllString(strings.ReplaceAll(text, "\\\n", " "), "1") // what a shell would put there
	for line := range strings.Lines(text) {
		words := shellWords(strings.TrimPrefix(strings.TrimSpace(line), "$ "))
		for len(words) > 0 && (words[0] == "sudo" || regexp.MustCompile(`^[A-Z_]+=`).MatchString(words[0])) {
			words = words[1:]
		}
		if len(words) == 0 || words[0] != name && words[0] != "bin/"+name {
			continue
		}
		all = append(all, words[1:])
	}
	return all
}

// shellWords splits a line as a shell would, up to what ends a command or sends its output elsewhere.
func shellWords(line string) (words []string) {
	var word strings.Builder
	var quote rune
	inside := false
	end := func() {
		if inside {
			words = append(words, word.String())
		}
		word.Reset()
		inside = false
	}
	for i, r := range line {
		switch {
		case quote != 0 && r == quote:
			quote = 0
		case quote != 0:
			word.WriteRune(r)
		case r == '\'' || r == '"':
			quote, inside = r, true
		case r == ' ' || r == '\t':
			end()
		case (r == '#' && !inside) || strings.ContainsRune("|;&>", r) || strings.HasPrefix(line[i:], "2>"):
			end()
			return words
		default:
			word.WriteRune(r)
			inside = true
		}
	}
	end()
	return words
}

// accepts is what a command has against its words.
func accepts(root *cobra.Command, words []string) error {
	for _, w := range words {
		if w == "…" || w == "..." {
			return nil // told in part
		}
	}
	cmd, rest, err := root.Find(words)
	if err != nil {
		return err
	}
	if err := cmd.ParseFlags(rest); err != nil {
		return err
	}
	if help, err := cmd.Flags().GetBool("help"); err == nil && help {
		return nil
	}
	return cmd.ValidateArgs(cmd.Flags().Args())
}
