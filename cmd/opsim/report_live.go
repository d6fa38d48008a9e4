package main

import (
	"fmt"
	"maps"
	"net"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/opreplay/opreplay/analysis/report/html"
	"github.com/opreplay/opreplay/internal/cli"
	"github.com/opreplay/opreplay/replay/explore"
	"github.com/opreplay/opreplay/sim/serve"
	"github.com/opreplay/opreplay/traces"
)

// serve shows a trace, or an exploration, as it grows.
func (f *reportFlags) serve(cmd *cobra.Command, dir string) error {
	page, err := livePage(dir)
	if err != nil {
		return err
	}
	if !serve.Loopback(f.listen) {
		return cli.Usagef("--listen %s: the page asks for no password: name an address of loopback", f.listen)
	}
	var lc net.ListenConfig
	l, err := lc.Listen(cmd.Context(), "tcp", f.listen)
	if err != nil {
		return cli.Usagef("--listen: %w", err)
	}
	server := &http.Server{Handler: page, ReadHeaderTimeout: 10 * time.Second}
	go func() {
		<-cmd.Context().Done()
		_ = server.Close()
	}()
	if _, err := fmt.Fprintf(cmd.OutOrStdout(), "http://%s/ shows %s as it grows; ^C ends it\n", l.Addr(), dir); err != nil {
		return err
	}
	if err := server.Serve(l); err != nil && cmd.Context().Err() == nil {
		return cli.CannotRun(err)
	}
	return nil
}

// livePage is the page of what a folder holds: an exploration, or else a trace.
func livePage(dir string) (http.Handler, error) {
	if s, err := explore.Look(dir); err != nil {
		return nil, err
	} else if s != nil {
		return &html.LiveExploration{
			Version: func() string { return explore.Version(dir) },
			Look:    func() (*html.Exploration, error) { return exploration(dir) },
		}, nil
	}
	trace, err := traces.Open(dir)
	if err != nil {
		return nil, err
	}
	return &html.Live{Dir: dir}, trace.Close()
}

// exploration is what a page says of an exploration's folder as it is now.
func exploration(dir string) (*html.Exploration, error) {
	s, err := explore.Look(dir)
	if err != nil {
		return nil, err
	}
	if s == nil {
		return nil, cli.Usagef("%s: the exploration is gone", dir)
	}
	e := &html.Exploration{
		Title: filepath.Base(filepath.Clean(dir)), Stage: s.Doing(), Over: s.Stage == explore.Done || s.Stage == explore.Stopped,
		Planned: s.Planned, Done: len(s.Rows), Before: s.Before, Began: s.Began, Now: time.Now(), Until: s.Until,
	}
	if !s.Ended.IsZero() {
		e.Now = s.Ended
	}
	for _, k := range explore.Tally(s.Rows) {
		e.Kinds = append(e.Kinds, html.ExploredKind(k))
	}
	for _, why := range slices.Sorted(maps.Keys(s.Pruned)) {
		e.Pruned = append(e.Pruned, fmt.Sprintf("%d × %s", s.Pruned[why], why))
	}
	for i, f := range s.Findings {
		x := html.ExploredFinding{
			What: f.What, Also: f.Also, ShownBy: "In the unaltered run", Plan: f.Plan, Small: f.Small, Command: f.Command, Story: f.Story,
		}
		if f.Plans > 0 {
			var kinds []string
			for _, k := range f.Kinds {
				kinds = append(kinds, string(k))
			}
			x.ShownBy = fmt.Sprintf("Shown by %s (%s)", cli.Count(f.Plans, "plan"), strings.Join(kinds, ", "))
		}
		if f.Command != "" { // before that a finding may have another number tomorrow
			x.Trace = filepath.Join(dir, fmt.Sprintf("finding-%d.optrace", i+1))
			x.Keep = f.Command + " --out " + shellWords([]string{x.Trace})
		}
		e.Findings = append(e.Findings, x)
	}
	return e, nil
}
