package replay

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"strings"
)

// Console asks a person how a standing run goes on: Enter, or a signal, to the next break; s one step; c to the end,
// as does the end of IN.
type Console struct {
	out    io.Writer
	lines  chan string // closed at the end of the input
	signal <-chan os.Signal
}

// NewConsole reads answers from IN, and writes to OUT. SIGNAL is as good as Enter; nil: none is.
func NewConsole(in io.Reader, out io.Writer, signal <-chan os.Signal) *Console {
	c := &Console{out: out, lines: make(chan string), signal: signal}
	go func() { // lives as long as the input, like the process
		defer close(c.lines)
		for s := bufio.NewScanner(in); s.Scan(); {
			c.lines <- strings.TrimSpace(s.Text())
		}
	}()
	return c
}

// Stand is a Stander.
func (c *Console) Stand(ctx context.Context, s *Standing) (Go, error) {
	p := newPrinter(c.out)
	p.Line("before step %d at %s, %s after the operator's first call: %s", s.Step, s.Time.Format("15:04:05.000000000"), s.Elapsed, s.What)
	for _, g := range s.Processes {
		p.Line("  %s: dlv attach %d", g.Name, g.Pid)
	}
	p.Line("  kubectl --kubeconfig %s get …", quoted(s.Kubeconfig))
	for {
		p.Line("Enter: to the next break; s: one step; c: to the end")
		if p.Err != nil {
			return GoToEnd, p.Err
		}
		select {
		case <-ctx.Done():
			return GoToEnd, ctx.Err()
		case <-c.signal:
			return GoToNext, nil
		case line, ok := <-c.lines:
			switch {
			case !ok, line == "c":
				return GoToEnd, nil
			case line == "":
				return GoToNext, nil
			case line == "s":
				return GoStep, nil
			}
			p.Line("%s", fmt.Sprintf("%q is none of them", line))
		}
	}
}
