package cli

import (
	"fmt"
	"io"
)

// Printer writes lines, and keeps the first error. What prints several lines looks at it once, at the end.
type Printer struct {
	W   io.Writer
	Err error
}

// Line writes a line.
func (p *Printer) Line(format string, args ...any) {
	if p.Err == nil {
		_, p.Err = fmt.Fprintf(p.W, format+"\n", args...)
	}
}

// Count is a number and what there is of it, which has an s at its end if it is not one: "1 case", "2 cases".
func Count(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}
