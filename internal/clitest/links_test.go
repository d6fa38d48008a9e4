package clitest

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var (
	link    = regexp.MustCompile(`\]\(([^)#\s]*)(?:#([^)\s]+))?\)`)
	heading = regexp.MustCompile(`(?m)^#+ +(.*)$`)
	fenced  = regexp.MustCompile("(?ms)^```.*?^```$")
)

// Every link of the pages to a file, or to a heading of a page, leads to one; and docs/README.md leads to every page of docs/.
func TestLinks(t *testing.T) {
	reached := map[string]bool{}
	for _, pattern := range []string{"*.md", "docs/*.md", "docs/findings/*.md", "notebooks/*.md", "examples/operators/*.md", "deploy/*.md"} {
		files, err := filepath.Glob(filepath.Join("../..", pattern))
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range files {
			for _, m := range link.FindAllStringSubmatch(prose(t, file), -1) {
				if strings.Contains(m[1], "://") {
					continue
				}
				target := file
				if m[1] != "" {
					target = filepath.Join(filepath.Dir(file), m[1])
				}
				if _, err := os.Stat(target); err != nil {
					t.Errorf("%s: %s leads nowhere", file, m[0])
					continue
				}
				if m[2] != "" && filepath.Ext(target) == ".md" && !hasHeading(prose(t, target), m[2]) {
					t.Errorf("%s: %s: there is no such heading", file, m[0])
				}
				if filepath.Base(file) == "README.md" && filepath.Base(filepath.Dir(file)) == "docs" {
					reached[target] = true
				}
			}
		}
	}
	pages, err := filepath.Glob("../../docs/*.md")
	if err != nil || len(pages) < 10 {
		t.Fatalf("%d pages, %v", len(pages), err)
	}
	for _, page := range pages {
		if filepath.Base(page) != "README.md" && !reached[page] {
			t.Errorf("docs/README.md does not lead to %s", page)
		}
	}
}

// prose is a page without what is in fences.
func prose(t *testing.T, file string) string {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return fenced.ReplaceAllString(string(text), "")
}

// hasHeading is whether a page has the heading that an anchor names, as GitHub makes it: lower case, blanks as dashes, no
// punctuation.
func hasHeading(page, anchor string) bool {
	for _, m := range heading.FindAllStringSubmatch(page, -1) {
		name := regexp.MustCompile(`[^\p{L}\p{N} _-]`).ReplaceAllString(strings.ToLower(m[1]), "")
		if strings.ReplaceAll(name, " ", "-") == anchor {
			return true
		}
	}
	return false
}
