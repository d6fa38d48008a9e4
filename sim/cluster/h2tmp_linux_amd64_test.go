package cluster

import (
	"strings"
	"testing"
	"time"
	"github.com/opreplay/opreplay/sim"
)

// A program that speaks nothing but HTTP/2 works, with TLS and without, and its runs are one.
func TestH2Tmp(t *testing.T) {
	for name, p := range map[string]Program{
		"tls":   {Name: "pod", InCluster: true, ServiceAccount: ServiceAccount{"default", "robot"}},
		"plain": {Name: "prog", Args: []string{DefaultHost.String() + ":8080"}},
	} {
		t.Run(name, func(t *testing.T) {
			p.Path = guest("h2only")
			same(t, runs(5), func(t *testing.T) string {
				w := begin(t, Options{Seed: 9, Step: func(s sim.Step) { if strings.Contains(s.Subject, "configmaps") && s.N < 60 { t.Log(s.N, s.At%1000000000/1000, s.Kind, s.Subject, s.Choice, s.Of) } }})
				pr, err := w.Start(p)
				if err != nil {
					t.Fatal(err)
				}
				hash := play(t, w, time.Hour)
				if status, ended := pr.Exited(); !ended || status.Code != 0 {
					t.Fatalf("ended: %v, %+v\n%s", ended, status, w.Output())
				}
				for _, want := range []string{"first ADDED m-", "10 items, 10 seen, 1 connection, timed out: true\n", "m-9 450000", "2026-01-01T00:10:0"} {
					if !strings.Contains(w.Output(), want) {
						t.Errorf("the output lacks %q:\n%s", want, w.Output())
					}
				}
				t.Log(hash, w.Output()); return hash
			})
		})
	}
}
