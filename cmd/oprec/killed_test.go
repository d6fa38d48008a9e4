package main

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/opreplay/opreplay/internal/clitest"
	"github.com/opreplay/opreplay/traces"
)

// stream serves ConfigMaps whose one object changes without end.
func stream(t *testing.T) string {
	return lists(t, func(w http.ResponseWriter, r *http.Request) {
		object := func(version int) string {
			return fmt.Sprintf(`{"kind":"ConfigMap","apiVersion":"v1","metadata":{"name":"c","namespace":"n","uid":"u","resourceVersion":"%d"},"data":{"n":"%d"}}`, version, version)
		}
		switch {
		case r.URL.Query().Get("sendInitialEvents") != "":
			w.WriteHeader(http.StatusUnprocessableEntity) // an older server: the reflector lists
		case r.URL.Query().Get("watch") == "":
			_, _ = fmt.Fprintf(w, `{"kind":"ConfigMapList","apiVersion":"v1","metadata":{"resourceVersion":"1"},"items":[%s]}`, object(1))
		default:
			for version := 2; r.Context().Err() == nil; version++ {
				if _, err := fmt.Fprintf(w, `{"type":"MODIFIED","object":%s}`+"\n", object(version)); err != nil {
					return
				}
				w.(http.Flusher).Flush()
				time.Sleep(time.Millisecond)
			}
		}
	})
}

// A capture that is killed at whatever moment is mended by oprec repair: it is sound, has the events without a gap,
// and says that its end is missing.
func TestCaptureIsKilled(t *testing.T) {
	config := kubeconfig(t, stream(t))
	for range 3 {
		out := filepath.Join(t.TempDir(), "t.optrace")
		oprec := clitest.Command(t, "capture", "--kubeconfig", config, "--out", out, "--resource", "configmaps")
		if err := oprec.Start(); err != nil {
			t.Fatal(err)
		}
		for { // until the journal is being written
			if names, err := filepath.Glob(filepath.Join(out, "journal-*.log")); err == nil && len(names) > 0 {
				break
			}
			<-time.After(time.Millisecond)
		}
		if got := clitest.Run(t, "repair", out); got.Code != 2 || !strings.Contains(got.Stderr, "still being written") {
			t.Errorf("repair meanwhile: exit code %d: %s", got.Code, got.Stderr)
		}
		<-time.After(time.Duration(rand.Int64N(int64(time.Second))))
		if err := oprec.Process.Signal(syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
		_ = oprec.Wait()
		if got := clitest.Run(t, "verify", out); got.Code != 1 || !strings.Contains(got.Stdout, "oprec repair") {
			t.Errorf("verify before: exit code %d: %s", got.Code, got.Stdout)
		}
		if got := clitest.Run(t, "repair", out); got.Code != 0 || !strings.Contains(got.Stdout, "came back from its journal") {
			t.Fatalf("exit code %d: %s%s", got.Code, got.Stdout, got.Stderr)
		}
		if got := clitest.Run(t, "verify", out); got.Code != 0 {
			t.Errorf("verify after: exit code %d: %s", got.Code, got.Stdout)
		}
		if got := clitest.Run(t, "repair", out); got.Code != 0 || !strings.Contains(got.Stdout, "nothing to repair") {
			t.Errorf("once more: exit code %d: %s", got.Code, got.Stdout)
		}
		wantWithoutGap(t, out)
	}
}

func wantWithoutGap(t *testing.T, out string) {
	t.Helper()
	trace, err := traces.Open(out)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = trace.Close() }()
	version := int64(0)
	for e, err := range traces.Rows[traces.WatchEvent](t.Context(), trace, traces.Range{}) {
		if err != nil {
			t.Fatal(err)
		}
		if version++; e.ResourceVersion != version {
			t.Fatalf("version %d follows %d", e.ResourceVersion, version-1)
		}
	}
	m := trace.Manifest()
	if version == 0 || len(m.Losses) != 1 || !strings.Contains(m.Losses[0].Reason, "killed") {
		t.Errorf("%d versions; losses %+v", version, m.Losses)
	}
	if left, err := os.ReadDir(out); err != nil || len(left) != 1+len(m.Files) {
		t.Errorf("left: %v, %v", left, err)
	}
}
