package sim

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"
)

// clockwork stands in for the processes: a clock, timers, and a tick that each run costs.
type clockwork struct {
	now    int64
	timers []int64 // sorted
	tick   int64
	log    *strings.Builder
}

func (c *clockwork) Run(context.Context) error {
	for len(c.timers) > 0 && c.timers[0] <= c.now {
		fmt.Fprintf(c.log, "%s process wakes\n", stamp(c.now))
		c.timers = c.timers[1:]
		c.now += c.tick
	}
	return nil
}
func (c *clockwork) Now() int64 { return c.now }
func (c *clockwork) NextTimer() (int64, bool) {
	if len(c.timers) == 0 {
		return 0, false
	}
	return c.timers[0], true
}

func (c *clockwork) AdvanceTo(at int64) {
	if at < c.now {
		panic("the clock went back")
	}
	c.now = at
}

func stamp(ns int64) string { return time.Duration(ns).String() }

func parseTime(t *testing.T, s string) int64 {
	t.Helper()
	if s == "never" {
		return Never
	}
	d, err := time.ParseDuration(s)
	if err != nil {
		t.Fatal(err)
	}
	return int64(d)
}

// The transcripts under testdata speak these commands:
//
//	world seed=N [limit=D] [tick=D] [timers=(D,…)]   a new world
//	at                                               one item a line: TIME LANE KIND SUBJECT…; lane "-" is none
//	retime SUBJECT TIME, cancel SUBJECT, drop LANE   change the agenda
//	run [steps=N]                                    step until the end, or N steps; prints each
//
// An item whose kind is "then" schedules, when applied, an item "echo" one second later.
func TestTranscripts(t *testing.T) {
	datadriven.Walk(t, "testdata", func(t *testing.T, path string) {
		var w *World
		var log strings.Builder
		byName := map[string]*Item{}
		schedule := func(line string) {
			f := strings.Fields(line)
			it := Item{Lane: f[1], Kind: f[2], Subject: strings.Join(f[3:], " ")}
			if it.Lane == "-" {
				it.Lane = ""
			}
			subject := it.Subject
			it.Apply = func() error {
				if f[2] == "fail" {
					return errors.New("broken")
				}
				if f[2] == "then" {
					w.After(time.Second, Item{Kind: "echo", Subject: subject, Apply: func() error { return nil }})
				}
				return nil
			}
			byName[subject] = w.At(parseTime(t, f[0]), it)
		}
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			log.Reset()
			switch d.Cmd {
			case "world":
				c := &clockwork{log: &log}
				o := Options{Processes: c}
				for _, a := range d.CmdArgs {
					switch a.Key {
					case "seed":
						n, err := strconv.ParseUint(a.Vals[0], 10, 64)
						if err != nil {
							t.Fatal(err)
						}
						o.Seed = n
					case "limit":
						o.Limit = parseTime(t, a.Vals[0])
					case "tick":
						c.tick = parseTime(t, a.Vals[0])
					case "timers":
						for _, v := range a.Vals {
							c.timers = append(c.timers, parseTime(t, v))
						}
					}
				}
				w = New(o)
			case "at":
				for line := range strings.SplitSeq(d.Input, "\n") {
					schedule(line)
				}
			case "retime":
				w.Retime(byName[d.CmdArgs[0].Key], parseTime(t, d.CmdArgs[1].Key))
			case "cancel":
				w.Cancel(byName[d.CmdArgs[0].Key])
			case "drop":
				w.CancelLane(d.CmdArgs[0].Key)
			case "run":
				steps := 1000
				d.MaybeScanArgs(t, "steps", &steps)
				for range steps {
					s, err := w.Step(context.Background())
					if err != nil {
						fmt.Fprintf(&log, "%s ends: %v\n", stamp(w.Nanos()), err)
						break
					}
					fmt.Fprintf(&log, "%s #%d %s %s", stamp(s.At), s.N, s.Kind, s.Subject)
					if s.Of > 1 {
						fmt.Fprintf(&log, " (%d of %d)", s.Choice+1, s.Of)
					}
					log.WriteString("\n")
				}
				fmt.Fprintf(&log, "pending: %d\n", w.Pending())
			default:
				t.Fatalf("unknown command %s", d.Cmd)
			}
			return log.String()
		})
	})
}

// The same seed chooses alike; among many seeds each order of three equal items comes up.
func TestSeedDecidesTies(t *testing.T) {
	order := func(seed uint64) string {
		w := New(Options{Seed: seed, Processes: &clockwork{log: &strings.Builder{}}})
		var got strings.Builder
		for _, name := range []string{"a", "b", "c"} {
			w.At(10, Item{Subject: name, Apply: func() error { got.WriteString(name); return nil }})
		}
		for {
			if _, err := w.Step(context.Background()); err != nil {
				return got.String()
			}
		}
	}
	seen := map[string]int{}
	for seed := range uint64(60) {
		if a, b := order(seed), order(seed); a != b {
			t.Fatalf("seed %d: %s and %s", seed, a, b)
		}
		seen[order(seed)]++
	}
	if len(seen) != 6 {
		t.Errorf("60 seeds showed %d of 6 orders: %v", len(seen), seen)
	}
}

func TestRandStreamsDoNotShiftEachOther(t *testing.T) {
	w := New(Options{Seed: 3, Processes: &clockwork{log: &strings.Builder{}}})
	want := w.Rand("latency").Uint64()
	w.Rand("uids").Uint64()
	if got := w.Rand("latency").Uint64(); got != want {
		t.Errorf("a draw elsewhere shifted the stream: %d, %d", want, got)
	}
	if w.Rand("uids").Uint64() == want {
		t.Error("two names share a stream")
	}
}

func TestAgendaIsBounded(t *testing.T) {
	w := New(Options{Processes: &clockwork{log: &strings.Builder{}}, MaxItems: 3})
	for range 4 {
		w.At(1, Item{Apply: func() error { return nil }})
	}
	if _, err := w.Step(context.Background()); err == nil || !strings.Contains(err.Error(), "without end") {
		t.Errorf("error %v", err)
	}
}

func TestBeforeSeesTheStepAndMayEndTheRun(t *testing.T) {
	stop := errors.New("stop here")
	applied := false
	w := New(Options{Processes: &clockwork{log: &strings.Builder{}}, Before: func(s Step) error {
		if s.Kind == "fault" && s.At == 5 {
			return stop
		}
		return nil
	}})
	w.At(5, Item{Kind: "fault", Apply: func() error { applied = true; return nil }})
	if _, err := w.Step(context.Background()); !errors.Is(err, stop) || applied {
		t.Errorf("error %v, applied %v", err, applied)
	}
}
