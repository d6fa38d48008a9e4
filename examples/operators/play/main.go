// Command play is the user of a zoo operator, on whatever cluster the kubeconfig names:
//
//	play --install statusloop     # definitions and namespace
//	oprec run --out t.optrace -- bin/zoo/statusloop &
//	play statusloop               # a few seconds of creating, editing, deleting
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"

	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/opreplay/opreplay/examples/operators"
	"github.com/opreplay/opreplay/examples/operators/scenario"
)

func main() {
	install := flag.Bool("install", false, "create the operator's definitions and the user's namespace, then stop")
	flag.Usage = func() {
		fmt.Fprintln(os.Stderr, "usage: play [--kubeconfig FILE] [--install] OPERATOR\nOPERATOR is one of the zoo:")
		for _, o := range operators.Zoo() {
			fmt.Fprintf(os.Stderr, "  %-16s %s\n", o.Name, o.Fault)
		}
		flag.PrintDefaults()
	}
	flag.Parse()
	if flag.NArg() != 1 {
		flag.Usage()
		os.Exit(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, flag.Arg(0), *install); err != nil {
		fmt.Fprintln(os.Stderr, "play:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, name string, install bool) error {
	s, err := scenario.For(name)
	if err != nil {
		return err
	}
	config, err := ctrl.GetConfig()
	if err != nil {
		return err
	}
	if install {
		return s.Install(ctx, config)
	}
	return s.Play(ctx, config)
}
