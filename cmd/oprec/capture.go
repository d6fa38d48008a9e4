package main

import (
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"

	"github.com/opreplay/opreplay/bpf"
	"github.com/opreplay/opreplay/bpf/events"
	"github.com/opreplay/opreplay/internal/cli"
	"github.com/opreplay/opreplay/recorder"
)

func newCaptureCmd() *cobra.Command {
	var o recorder.Options
	var access recorder.Access
	var all bool
	cmd := &cobra.Command{
		Use:   "capture --out TRACE",
		Short: "Record what changes in a cluster, through watches",
		Long: `capture lists and watches all resources of a cluster, or those that --resource names, and writes
every object and every change of one to the trace. Custom resources are included, those of CRDs that are
created meanwhile too. It resumes over disconnects and says in the trace what it may have missed.

It runs until ^C or --duration. It needs the rights to list and watch; what it may not see is stated.`,
		Example: `  # everything, until ^C
  oprec capture --out t.optrace

  # two resources of one namespace for five minutes
  oprec capture --out t.optrace --resource deployments.apps --resource po -n shop --duration 5m

  # a live operator's calls as well, with its configuration as it is (needs root or CAP_BPF, CAP_PERFMON and CAP_SYS_PTRACE)
  sudo oprec capture --out t.optrace --pid $(pgrep shop-operator)

  # those of a pod, over its restarts, with metrics for Prometheus meanwhile
  sudo oprec capture --out t.optrace --pod shop/shop-operator-0 --metrics-addr 127.0.0.1:9464

  # the operator's own metrics too, at an endpoint that asks who wants to know
  oprec capture --out t.optrace --scrape https://127.0.0.1:8443/metrics --scrape-token-file token --scrape-insecure

  # without the chatter
  oprec capture --out t.optrace --exclude events --exclude leases.coordination.k8s.io`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if all && len(o.Resources) > 0 {
				return cli.Usagef("--all and --resource exclude each other")
			}
			if err := checkChoice(cmd, &o.Choice); err != nil {
				return err
			}
			if err := checkScrape(cmd, &o.Scrape); err != nil {
				return err
			}
			if err := prepare(cmd, &o, access); err != nil {
				return err
			}
			r, err := recorder.Capture(cmd.Context(), o)
			return finish(cmd.OutOrStdout(), r, err)
		},
	}
	recordingFlags(cmd, &o, &access)
	watchFlags(cmd, &o)
	profileFlags(cmd, &o)
	choiceFlags(cmd, &o.Choice)
	scrapeFlags(cmd, &o.Scrape)
	cmd.Flags().BoolVar(&all, "all", false, "all resources, which is the default")
	return cmd
}

// choiceFlags say which processes to look at.
func choiceFlags(cmd *cobra.Command, c *recorder.Choice) {
	f := cmd.Flags()
	f.IntVar(&c.PID, "pid", 0, "a running operator, whose API calls, reconciles and stacks are recorded too")
	f.StringVar(&c.Comm, "comm", "", "the same of all processes of this command name, such as manager, that there are and will be")
	f.StringVar(&c.Container, "container", "", "the same of a container's processes, by its id")
	f.StringVar(&c.Pod, "pod", "", "the same of a pod's processes, over restarts: NAMESPACE/NAME")
}

// checkChoice refuses a process that is none, and flags about processes when none is chosen.
func checkChoice(cmd *cobra.Command, c *recorder.Choice) error {
	f := cmd.Flags()
	for _, name := range []string{"pid", "comm", "container", "pod"} {
		if v := f.Lookup(name).Value.String(); f.Changed(name) && (v == "" || v == "0") {
			return cli.Usagef("--%s %s: want a process", name, v)
		}
	}
	if *c != (recorder.Choice{}) {
		return nil
	}
	for _, name := range []string{"hz", "kernel-events", "read-loop-rate", "read-loop-hold"} {
		if f.Changed(name) {
			return cli.Usagef("--%s is about the processes that --pid, --comm, --container or --pod choose", name)
		}
	}
	return nil
}

// profileFlags say how to look at an operator from the kernel.
func profileFlags(cmd *cobra.Command, o *recorder.Options) {
	cmd.Flags().IntVar(&o.Hz, "hz", bpf.DefaultHz, "samples of the operator's stacks in a second, of each processor")
	f := cmd.Flags()
	f.StringSlice("kernel-events", recorder.CheapKernelEvents, "what befalls it in the kernel: refused (connections), forks, enospc (a full disk), read-loops; all, none. The last two cost each system call of the machine some 0.1 µs")
	f.IntVar(&o.KernelEvents.Reads, "read-loop-rate", events.DefaultReads, "equal reads in a second that make a hot loop")
	f.DurationVar(&o.KernelEvents.Hold, "read-loop-hold", events.DefaultHold, "for how long there must be as many in each second")
}

// kernelEvents reads the flag, of the commands that have it.
func kernelEvents(cmd *cobra.Command, o *recorder.Options) error {
	if cmd.Flags().Lookup("kernel-events") == nil {
		return nil
	}
	words, err := cmd.Flags().GetStringSlice("kernel-events")
	if err != nil {
		return err
	}
	if err := recorder.SetKernelEvents(&o.KernelEvents, words); err != nil {
		return err
	}
	for _, name := range []string{"read-loop-rate", "read-loop-hold"} {
		if cmd.Flags().Changed(name) && !o.KernelEvents.ReadLoops {
			return cli.Usagef("--%s is about loops of reads: add read-loops to --kernel-events", name)
		}
	}
	return nil
}

// recordingFlags are those of every command that records.
func recordingFlags(cmd *cobra.Command, o *recorder.Options, a *recorder.Access) {
	f := cmd.Flags()
	f.StringVar(&o.Out, "out", "", "trace folder to make, such as t.optrace (required)")
	f.DurationVar(&o.Duration, "duration", 0, "end after this time, such as 90s (0: at ^C)")
	f.BoolVar(&o.IncludeSecrets, "include-secrets", false, "record the values of Secrets and tokens instead of keyed hashes")
	f.StringVar(&o.MetricsAddr, "metrics-addr", "", "serve metrics for Prometheus while recording, at HOST:PORT on loopback, such as 127.0.0.1:9464")
	f.StringVar(&a.Kubeconfig, "kubeconfig", "", "kubeconfig file (default: KUBECONFIG, ~/.kube/config, or the pod's service account)")
	f.StringVar(&a.Context, "context", "", "context of the kubeconfig (default: its current one)")
	f.StringVar(&a.As, "as", "", "user to impersonate, such as system:serviceaccount:NAMESPACE:NAME")
	f.StringSliceVar(&a.AsGroups, "as-group", nil, "group to impersonate; repeatable")
	_ = cmd.MarkFlagDirname("out")
	_ = cmd.MarkFlagFilename("kubeconfig")
}

// scrapeFlags say which metrics to record.
func scrapeFlags(cmd *cobra.Command, o *recorder.Scrape) {
	f := cmd.Flags()
	f.StringArrayVar(&o.URLs, "scrape", nil, "metrics endpoint of the operator, such as http://127.0.0.1:8080/metrics, whose samples are recorded; repeatable")
	f.DurationVar(&o.Interval, "scrape-interval", recorder.DefaultScrapeInterval, "how often it is scraped")
	f.StringVar(&o.TokenFile, "scrape-token-file", "", "file with a bearer token for it")
	f.BoolVar(&o.Insecure, "scrape-insecure", false, "take any certificate of it")
	_ = cmd.MarkFlagFilename("scrape-token-file")
}

// checkScrape refuses how to scrape when nothing is.
func checkScrape(cmd *cobra.Command, o *recorder.Scrape) error {
	if cmd.Flags().Changed("scrape-interval") && o.Interval == 0 {
		return cli.Usagef("--scrape-interval 0: want a time such as 15s")
	}
	for _, name := range []string{"scrape-interval", "scrape-token-file", "scrape-insecure"} {
		if len(o.URLs) == 0 && cmd.Flags().Changed(name) {
			return cli.Usagef("--%s does nothing without --scrape", name)
		}
	}
	return nil
}

// watchFlags choose what is watched.
func watchFlags(cmd *cobra.Command, o *recorder.Options) {
	f := cmd.Flags()
	f.StringSliceVarP(&o.Resources, "resource", "r", nil, "resource to watch, named as for kubectl (pods, po, deployments.apps); repeatable (default: all)")
	f.StringSliceVar(&o.Exclude, "exclude", nil, "resource not to watch; repeatable")
	f.StringSliceVarP(&o.Namespaces, "namespace", "n", nil, "namespace to watch; repeatable (default: all)")
}

// prepare checks the flags and finds the cluster.
func prepare(cmd *cobra.Command, o *recorder.Options, a recorder.Access) (err error) {
	if o.Out == "" {
		return cli.Usagef("--out is missing: name the trace folder to make, as in --out t.optrace")
	}
	if o.Duration < 0 {
		return cli.Usagef("--duration %s: want a positive time", o.Duration)
	}
	if o.Hz == 0 && cmd.Flags().Changed("hz") {
		return cli.Usagef("--hz 0: want samples a second from 1 to 10000")
	}
	if err := kernelEvents(cmd, o); err != nil {
		return err
	}
	if o.Config, o.Namespace, err = a.Load(); err != nil {
		return err
	}
	o.Tool = "oprec " + cli.ThisBuild().Version
	o.Progress = cli.NewProgress(os.Stderr)
	stderr := cmd.ErrOrStderr()
	progress := o.Progress
	o.Note = func(format string, args ...any) {
		progress.Done()
		_, _ = fmt.Fprintf(stderr, "oprec: "+format+"\n", args...)
	}
	return nil
}

// finish prints what was recorded.
func finish(w io.Writer, r *recorder.Result, err error) error {
	if err != nil {
		return err
	}
	_, err = fmt.Fprintln(w, r.Summary())
	return err
}
