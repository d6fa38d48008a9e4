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
)

// Every link of the pages to a file, or to a heading of a page, leads to one; and docs/README.md leads to every page of docs/.
func TestLinks(t *testing.T) {
	reached := map[string]bool{}
	pages := prosePages(t)
	for file, text := range pages {
		for _, m := range link.FindAllStringSubmatch(text, -1) {
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
			if page, is := pages[target]; is && m[2] != "" && !hasHeading(page, m[2]) {
				t.Errorf("%s: %s: there is no such heading", file, m[0])
			}
			if file == "../../docs/README.md" {
				reached[target] = true
			}
		}
	}
	for page := range pages {
		if filepath.Dir(page) == "../../docs" && filepath.Base(page) != "README.md" && !reached[page] {
			t.Errorf("docs/README.md does not lead to %s", page)
		}
	}
}

// Every target of make that a page mentions is there.
func TestMakeTargets(t *testing.T) {
	makefile, err := os.ReadFile("../../Makefile")
	if err != nil {
		t.Fatal(err)
	}
	found := 0
	for file, text := range markdown(t) {
		for _, m := range regexp.MustCompile("(?m)(?:`|^[$] |^)make ([a-z][a-z-]*)").FindAllStringSubmatch(text, -1) {
			found++
			if !strings.Contains(string(makefile), "\n"+m[1]+":") {
				t.Errorf("%s: the Makefile has no target %s", file, m[1])
			}
		}
	}
	if found < 20 {
		t.Errorf("%d targets found in the pages", found)
	}
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
