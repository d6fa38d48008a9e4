package cli

import (
	"fmt"
	"io"
	"os"
	"sync"

	"golang.org/x/term"
)

// Progress is a line at the bottom of a terminal that is rewritten in place. On anything that is no
// terminal (a file, a pipe, CI) it prints nothing. The zero value prints nothing too.
type Progress struct {
	mu  sync.Mutex
	out io.Writer // nil: quiet
	fd  int
	on  bool // something stands in the line now
}

// NewProgress makes a progress line on W, which shows only if W is a terminal.
func NewProgress(w io.Writer) *Progress {
	f, ok := w.(*os.File)
	if !ok || os.Getenv("CI") != "" || !term.IsTerminal(int(f.Fd())) {
		return &Progress{}
	}
	return &Progress{out: f, fd: int(f.Fd())}
}

// Set shows a new text in the line, cut to the terminal's width.
func (p *Progress) Set(format string, args ...any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.out == nil {
		return
	}
	text := []rune(fmt.Sprintf(format, args...))
	if width, _, err := term.GetSize(p.fd); err == nil && width > 1 && len(text) >= width {
		text = text[:width-1]
	}
	_, _ = fmt.Fprintf(p.out, "\r\x1b[K%s", string(text))
	p.on = true
}

// Done clears the line, so that what is printed next starts at the left.
func (p *Progress) Done() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.out != nil && p.on {
		_, _ = io.WriteString(p.out, "\r\x1b[K")
		p.on = false
	}
}
