package analysis

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/opreplay/opreplay/traces"
)

func TestRefusedConnections(t *testing.T) {
	for name, refuse := range map[string]func(c *cluster){
		"kernel": func(c *cluster) {
			c.add(&traces.KernelEvent{Kind: "refused", PID: 7, Address: "10.0.0.7", Port: 8443, Errno: 111, StackID: 3})
		},
		"log": func(c *cluster) {
			c.failed("op", ref{sites, "front"}, "probe: dial tcp 10.0.0.7:8443: connect: connection refused")
		},
	} {
		t.Run(name, func(t *testing.T) {
			c := newCluster(t, "op")
			site(c, "front")
			for range 30 {
				c.sleep(time.Second)
				refuse(c)
			}
			f := c.analyze(NewResourceExhaustion()).only(t, "resource-exhaustion")
			if !strings.Contains(f.What, "30 connections by 10.0.0.7:8443") || f.Severity != Warning {
				t.Errorf("%+v", f)
			}
			// A simulated world has nobody but the API server to connect to.
			r, err := Records(context.Background(), c.records(), &traces.Manifest{Run: &traces.Run{}}, "", Options{Detectors: []Detector{NewResourceExhaustion()}})
			if err != nil {
				t.Fatal(err)
			}
			r.noted(t, "the simulated world does not have")
		})
	}
}

func TestForkStormFullDiskAndDescriptors(t *testing.T) {
	for want, scene := range map[string]func(c *cluster){
		"started 600 processes": func(c *cluster) {
			for range 60 {
				c.sleep(500 * time.Millisecond)
				c.add(&traces.KernelEvent{Kind: "fork", PID: 7, Count: 10})
			}
		},
		"disk full": func(c *cluster) { c.add(&traces.KernelEvent{Kind: "enospc", PID: 7, FD: 4, Errno: 28}) },
		"out of file descriptors 3 times": func(c *cluster) {
			for range 3 {
				c.log("op", "error", "http: Accept error: accept tcp [::]:9443: accept4: too many open files; retrying in 1s", nil)
				c.sleep(time.Second)
			}
		},
	} {
		c := newCluster(t, "op")
		site(c, "front")
		scene(c)
		if f := c.analyze(NewResourceExhaustion()).only(t, "resource-exhaustion"); !strings.Contains(f.What, want) {
			t.Errorf("%q lacks %q", f.What, want)
		}
	}
}

func TestNoResourceExhaustion(t *testing.T) {
	c := newCluster(t, "op")
	for range 25 { // while a server is updated
		c.sleep(200 * time.Millisecond)
		c.add(&traces.KernelEvent{Kind: "refused", PID: 7, Address: "10.0.0.7", Port: 8443})
	}
	for range 60 { // a tool for each pass
		c.sleep(time.Second)
		c.add(&traces.KernelEvent{Kind: "fork", PID: 7, Count: 1})
	}
	c.log("op", "info", "connection refused is what we expect here", nil)
	c.log("op", "error", "open: too many open files", nil)
	c.analyze(NewResourceExhaustion()).silent(t)
}
