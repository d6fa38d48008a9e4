package report

import (
	"bufio"
	"fmt"
	"io"

	"github.com/opreplay/opreplay/analysis/causal"
)

// Why writes a chain of causes for reading by eye.
func Why(w io.Writer, c *causal.Chain, o Options) error {
	if o.Width == 0 {
		o.Width = 100
	}
	c = cleaned(c)
	p := &printer{w: bufio.NewWriter(w), style: style{o.Color}, width: o.Width}
	p.line(p.bold(c.Target) + "  " + p.dim(c.Trace))
	p.line("")
	p.steps(c.Steps)
	return p.w.Flush()
}

// steps writes each step below the one that it led to.
func (p *printer) steps(list []causal.Step) {
	for i := 0; i < len(list); {
		n := 1
		for i+n < len(list) && list[i].Times > 1 && list[i+n].Times == list[i].Times {
			n++
		}
		for _, s := range list[i : i+n] {
			p.step(s)
		}
		if list[i].Times > 1 {
			p.field("", fmt.Sprintf("… and so on: %s came %s times in a row", these(n), Thousands(list[i].Times)))
		}
		i += n
	}
}

func these(n int) string {
	if n == 1 {
		return "this step"
	}
	return fmt.Sprintf("these %d steps", n)
}

func (p *printer) step(s causal.Step) {
	place := ""
	if s.Seq != 0 {
		place = fmt.Sprintf("seq %d", s.Seq)
	}
	p.field(place, s.What)
	if s.Code != "" {
		p.field("", "at "+s.Code)
	}
	switch {
	case s.Known == "" || s.Kind == causal.Unknown && s.Confidence == 0:
	case s.Kind == causal.Unknown:
		p.field("", fmt.Sprintf("inferred, %.0f %% sure", s.Confidence*100))
	case s.Known == "recorded":
		p.field("", "recorded: "+s.By)
	default:
		p.field("", fmt.Sprintf("inferred, %.0f %% sure: %s", s.Confidence*100, s.By))
	}
}
