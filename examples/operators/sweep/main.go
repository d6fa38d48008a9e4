// Command sweep explores with every operator of the zoo, the faulty twin and the mended one, and prints what it takes and
// what it finds as a table: a fault of the faulty twin that is not found, and an alarm of the mended one, is opsim's.
//
//	go run ./examples/operators/sweep --opsim bin/opsim --zoo bin/zoo --out sweep [NAME…]
//
// What lies in the folder of --out is gone on with, so that it may be ended at any time.
package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/opreplay/opreplay/examples/operators"
	"github.com/opreplay/opreplay/replay/explore"
)

// sweep is a sweep under way.
type sweep struct {
	opsim, zoo, traces, out string
	budget                  int

	plans, alarms int  // of the mended twins
	wrong         bool // a fault was not found, or a mended twin has a finding
}

func main() {
	var s sweep
	flag.StringVar(&s.opsim, "opsim", "bin/opsim", "the program")
	flag.StringVar(&s.zoo, "zoo", "bin/zoo", "folder of the operators' programs")
	flag.StringVar(&s.traces, "traces", "traces/cases", "folder of the recordings")
	flag.StringVar(&s.out, "out", "sweep", "folder for what is found")
	flag.IntVar(&s.budget, "budget", explore.DefaultBudget, "plans for each")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := s.run(ctx, flag.Args()); err != nil {
		fmt.Fprintln(os.Stderr, "sweep:", err)
		os.Exit(3)
	}
	if s.wrong {
		os.Exit(1)
	}
}

func (s *sweep) run(ctx context.Context, names []string) error {
	if err := os.MkdirAll(s.out, 0o700); err != nil {
		return err
	}
	fmt.Println("| operator | twin | plans | wall s | CPU s | first alarm s | plans with alarms | findings | faults of the smallest plans |")
	fmt.Println("| --- | --- | --- | --- | --- | --- | --- | --- | --- |")
	for _, o := range operators.Zoo() {
		if len(names) > 0 && !slices.Contains(names, o.Name) {
			continue
		}
		for _, fixed := range []bool{false, true} {
			if err := s.twin(ctx, o, fixed); err != nil {
				return fmt.Errorf("%s: %w", o.Name, err)
			}
		}
	}
	if s.plans > 0 {
		fmt.Printf("\nfalse alarms: %d of %d plans of the mended twins (%.2f %%)\n", s.alarms, s.plans, 100*float64(s.alarms)/float64(s.plans))
	}
	return nil
}

// twin explores with one twin, and prints its row.
func (s *sweep) twin(ctx context.Context, o operators.Operator, fixed bool) error {
	name := o.Name
	program, twin := filepath.Join(s.zoo, name), "faulty"
	if fixed {
		program, twin = program+" --fixed", "fixed"
	}
	cmd := exec.CommandContext(ctx, s.opsim, "explore", filepath.Join(s.traces, name+".optrace"), "--operator", program,
		"--budget", strconv.Itoa(s.budget), "--out", filepath.Join(s.out, name+"-"+twin), "-o", "json")
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) } // so that it ends its operators
	cmd.WaitDelay = 10 * time.Second
	cmd.Stderr = os.Stderr
	text, err := cmd.Output()
	if cmd.ProcessState == nil || cmd.ProcessState.ExitCode() > 1 {
		return err
	}
	var r explore.Result
	if err := json.Unmarshal(text, &r); err != nil {
		return err
	}
	var sizes []string
	for _, g := range r.Groups {
		t := g.Try
		if g.Small != nil {
			t = g.Small.Try
		}
		sizes = append(sizes, strconv.Itoa(len(t.Plan.Faults)))
	}
	if fixed {
		s.plans, s.alarms = s.plans+r.Ran, s.alarms+r.Alarming
	}
	s.wrong = s.wrong || (fixed || o.Noted) == (len(r.Groups) > 0)
	used := cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()
	fmt.Printf("| %s | %s | %d | %.0f | %.0f | %.1f | %d | %d | %s |\n", name, twin, r.Ran, r.Took.Seconds(), used.Seconds(), r.FirstAlarm.Seconds(),
		r.Alarming, len(r.Groups), strings.Join(sizes, ", "))
	return nil
}
