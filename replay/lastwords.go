package replay

import (
	"strings"

	"github.com/opreplay/opreplay/traces"
)

// LastWords is what of a process's output says most of why it ended: its first panic, else its first error, else its
// last line. After a panic comes a stack, after a refused flag a list of all flags.
type LastWords struct {
	line   *traces.Log
	weight int
}

// Hear takes the next line.
func (w *LastWords) Hear(l *traces.Log) {
	if strings.TrimSpace(l.Message) == "" {
		return
	}
	if n := weight(l); w.line == nil || n > w.weight || n == 0 && w.weight == 0 {
		w.line, w.weight = l, n
	}
}

// weight is how much a line says of why a process ends.
func weight(l *traces.Log) int {
	message := strings.ToLower(l.Message)
	switch {
	case strings.HasPrefix(message, "panic:"), strings.HasPrefix(message, "fatal error:"):
		return 3
	case l.Level == "fatal", l.Level == "panic", l.Level == "dpanic":
		return 2
	case l.Level == "error", strings.HasPrefix(message, "error:"), strings.HasPrefix(message, "flag provided but not defined"):
		return 1
	}
	return 0
}

// Message is the line without its fields; "" if there was none.
func (w *LastWords) Message() string {
	if w.line == nil {
		return ""
	}
	return w.line.Message
}

// String is the line with its fields; "" if there was none.
func (w *LastWords) String() string {
	if w.line == nil || w.line.Fields == "" {
		return w.Message()
	}
	return w.line.Message + " " + w.line.Fields
}
