package report

import (
	"io"
	"os"
	"strings"
	"unicode/utf8"

	"golang.org/x/term"
)

// Terminal is whether w is a terminal that should get colour: not when NO_COLOR is set (no-color.org) or TERM is
// dumb.
func Terminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	return ok && os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb" && term.IsTerminal(int(f.Fd()))
}

// style paints text, or leaves it when there is no colour.
type style struct{ color bool }

func (s style) paint(code, text string) string {
	if !s.color || text == "" {
		return text
	}
	return "\x1b[" + code + "m" + text + "\x1b[0m"
}

func (s style) bold(text string) string { return s.paint("1", text) }
func (s style) dim(text string) string  { return s.paint("2", text) }

func (s style) severity(severity string) string {
	if severity == "error" {
		return s.paint("1;31", severity)
	}
	return s.paint("1;33", severity)
}

// wrap breaks text into lines of at most width runes, at spaces. Words that are longer stay whole.
func wrap(text string, width int) []string {
	var lines []string
	line, length := "", 0
	for _, word := range strings.Fields(text) {
		n := utf8.RuneCountInString(word)
		if length > 0 && length+1+n > width {
			lines = append(lines, line)
			line, length = "", 0
		}
		if length > 0 {
			line, length = line+" ", length+1
		}
		line, length = line+word, length+n
	}
	if length > 0 {
		lines = append(lines, line)
	}
	return lines
}
