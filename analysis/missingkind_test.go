package analysis

import (
	"strings"
	"testing"
	"time"
)

func TestMissingKindInTheScheme(t *testing.T) {
	for text, kind := range map[string]string{
		`no kind is registered for the type main.Page in scheme "pkg/runtime/scheme.go:110"`:                      "main.Page",
		`publish: no kind "Page" is registered for version "web.example.com/v1" in scheme "pkg/runtime/scheme:1"`: "web.example.com/v1 Page",
	} {
		c := newCluster(t, "op")
		c.failed("op", site(c, "front"), text)
		f := c.analyze(NewMissingKind()).only(t, "missing-kind")
		if !strings.Contains(f.What, kind+", which is not in its scheme") || f.Objects[0].Name != "front" || f.Severity != Error || !strings.Contains(f.Cause, "AddToScheme") {
			t.Errorf("%+v", f)
		}
	}
}

func TestMissingKindInTheCluster(t *testing.T) {
	c := newCluster(t, "op")
	for range 5 {
		c.log("op", "error", "if kind is a CRD, it should be installed before calling Start", m{"error": `no matches for kind "Page" in version "web.example.com/v2"`, "kind": "Page.web.example.com"})
		c.sleep(10 * time.Second)
	}
	f := c.analyze(NewMissingKind()).only(t, "missing-kind")
	if !strings.Contains(f.What, "web.example.com/v2 Page, which the cluster does not serve") {
		t.Error(f.What)
	}
}

func TestNoMissingKind(t *testing.T) {
	c := newCluster(t, "op")
	for range 3 { // its definitions come half a minute late
		c.log("op", "error", "if kind is a CRD, it should be installed before calling Start", m{"error": `no matches for kind "Page" in version "web.example.com/v2"`})
		c.sleep(10 * time.Second)
	}
	c.quiet(5 * time.Minute)
	r := c.analyze(NewMissingKind())
	r.none(t)
	if len(r.Notes) != 1 {
		t.Error("no note of it")
	}
}
