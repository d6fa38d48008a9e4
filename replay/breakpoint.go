package replay

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/opreplay/opreplay/internal/cli"
	"github.com/opreplay/opreplay/sim"
	"github.com/opreplay/opreplay/sim/fault"
	"github.com/opreplay/opreplay/sim/front"
)

// Break is where a run in virtual time stands still: before a step of the world.
type Break struct {
	text string
	what *fault.Selector // before the API server gets a call, or a process an event of a watch
	step int64           // before a step, by its number
	at   time.Duration   // before the first step at or after this time since the operator's first call

	watch *fault.Watcher // of what; counts as a plan does
	met   bool           // ever
	past  bool           // and never again
}

// ParseBreak reads "VERB RESOURCE[/NAME] [#N]", "EVENT [RESOURCE/]NAME [#N]", "step N" or a time such as 10s.
func ParseBreak(text string) (Break, error) {
	b := Break{text: text}
	if word, number, _ := strings.Cut(text, " "); word == "step" {
		n, err := strconv.ParseInt(number, 10, 64)
		if err != nil || n < 1 {
			return b, cli.Usagef("break %q: want step 1, step 2, …", text)
		}
		b.step = n
		return b, nil
	}
	if d, err := time.ParseDuration(text); err == nil {
		if d <= 0 {
			return b, cli.Usagef("break %q: want a time after the operator's first call", text)
		}
		b.at = d
		return b, nil
	}
	s, err := fault.ParseWatched(text)
	if err != nil {
		return b, cli.Usagef("break: %w; or want \"step 120\", or a time such as 10s", err)
	}
	b.what = &s
	return b, nil
}

// meets says whether the run is to stand still before a step, ELAPSED after the operator's first call.
func (b *Break) meets(s *sim.Step, elapsed time.Duration) (meets bool) {
	switch {
	case b.past:
		return false
	case b.what != nil:
		meets = b.means(s.About)
		b.past = meets && b.what.N != 0
	case b.step != 0:
		meets = s.N >= b.step
		b.past = meets
	default:
		meets = elapsed >= b.at
		b.past = meets
	}
	b.met = b.met || meets
	return meets
}

// means says whether what a step is about is what the break waits for.
func (b *Break) means(about any) bool {
	switch x := about.(type) {
	case front.Arrival:
		return b.watch.MeansCall(x.Ticket)
	case fault.Event:
		return b.watch.MeansEvent(x)
	}
	return false
}

// Standing is a world that stands still, time included.
type Standing struct {
	Step      int64     `json:"step"`    // that comes next
	What      string    `json:"what"`    // it is
	Time      time.Time `json:"time"`    // by the world's clock
	Elapsed   string    `json:"elapsed"` // since the operator's first call
	Processes []Pid     `json:"processes"`
	// Kubeconfig leads to the cluster as it is, for reading; it is of use while the world stands.
	Kubeconfig string `json:"kubeconfig"`
}

// Pid is a process of the operating system's.
type Pid struct {
	Name string `json:"name"`
	Pid  int    `json:"pid"`
}

// Go says how a run goes on.
type Go int

// The ways to go on.
const (
	GoToNext Go = iota // to the next break
	GoStep             // one step
	GoToEnd            // without another break
)

// breaker stops a run at its breaks.
type breaker struct {
	v      *virtualRun
	breaks []Break
	one    bool // stand before the next step, whatever it is
	over   bool // never again
	window *window
}

func (v *virtualRun) newBreaker() *breaker {
	// A Break counts: a run must not find another's counts.
	return &breaker{v: v, breaks: append([]Break(nil), v.o.BreakAt...)}
}

// count has the plan's machine count what the breaks wait for.
func (b *breaker) count(m *fault.Machine) {
	for i := range b.breaks {
		if k := &b.breaks[i]; k.what != nil {
			k.watch = m.Watch(*k.what)
		}
	}
}

// before is called with every step before it is taken.
func (b *breaker) before(s sim.Step) error {
	if b.over || len(b.breaks) == 0 {
		return nil
	}
	stand := b.one
	for i := range b.breaks { // all of them, since they count
		if b.breaks[i].meets(&s, b.v.elapsed()) {
			stand = true
		}
	}
	if !stand {
		return nil
	}
	b.one = false
	return b.stand(&s)
}

// stand waits for a word on how to go on. Nothing of the world moves meanwhile.
func (b *breaker) stand(s *sim.Step) error {
	if b.window == nil {
		w, err := openWindow(b.v.ctx, b.v.server.Handler())
		if err != nil {
			return err
		}
		b.window = w
	}
	st := &Standing{
		Step: s.N, What: strings.TrimSpace(s.Kind + " " + s.Subject), Time: b.v.world.Now(),
		Elapsed: b.v.elapsed().String(), Kubeconfig: b.window.kubeconfig,
	}
	for _, g := range b.v.guests {
		if !g.ended() {
			st.Processes = append(st.Processes, Pid{g.op.Name, g.proc.Pid()})
		}
	}
	b.v.o.Progress.Done()
	b.window.show()
	defer b.window.hide()
	how, err := b.ask(st)
	b.one, b.over = how == GoStep, how == GoToEnd
	return err
}

// ask asks how to go on, and lets debuggers have their way meanwhile.
func (b *breaker) ask(st *Standing) (how Go, err error) {
	answered := make(chan struct{})
	go func() {
		defer close(answered)
		how, err = b.v.o.Stand(b.v.ctx, st)
	}()
	look := time.NewTicker(20 * time.Millisecond)
	defer look.Stop()
	for {
		select {
		case <-answered:
			return how, err
		case <-look.C:
			b.v.sup.Attend()
		}
	}
}

func (b *breaker) close() {
	if b.window != nil {
		b.window.close()
	}
}

// unmet names the breaks that were never met.
func (b *breaker) unmet() (notes []string) {
	if b.over {
		return nil
	}
	for i := range b.breaks {
		k := &b.breaks[i]
		if k.met {
			continue
		}
		note := fmt.Sprintf("--break-at %q was never met", k.text)
		if k.watch != nil && k.watch.Seen() > 0 {
			note += fmt.Sprintf(": there were only %d", k.watch.Seen())
			if k.what.N <= k.watch.Seen() {
				note = fmt.Sprintf("--break-at %q was a change of an outsider, before which nothing stands still", k.text)
			}
		}
		notes = append(notes, note)
	}
	return notes
}

// Stander decides how a standing run goes on.
type Stander func(context.Context, *Standing) (Go, error)
