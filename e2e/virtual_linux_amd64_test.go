package e2e

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

const nobody = 65534

// world is a folder that everybody may read, with opsim, an operator and a trace in it.
func world(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "opsim-everybody-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	trace, err := filepath.Abs("../traces/cases/statusloop.optrace")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.CopyFS(filepath.Join(dir, "t.optrace"), os.DirFS(trace)); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"opsim", "zoo/statusloop"} {
		b, err := os.ReadFile(filepath.Join(bin, name))
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, filepath.Base(name)), b, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	if err := filepath.Walk(dir, func(path string, i os.FileInfo, err error) error {
		if err != nil {
			return err
		}
		return os.Chmod(path, i.Mode()|(i.Mode()&0o500)>>6|(i.Mode()&0o500)>>3)
	}); err != nil {
		t.Fatal(err)
	}
	return dir
}

// replay replays the trace in a folder as a user and says the hash of the run.
func replay(t *testing.T, dir string, user uint32) string {
	t.Helper()
	home, err := os.MkdirTemp("", "opsim-home-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(home) })
	if err := os.Chown(home, int(user), int(user)); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(within(t), filepath.Join(dir, "opsim"), "replay", filepath.Join(dir, "t.optrace"), "--clock", "virtual",
		"--operator", filepath.Join(dir, "statusloop")+" --fixed", "--out", filepath.Join(home, "run.optrace"), "-o", "json")
	cmd.Dir, cmd.Env = home, []string{"HOME=" + home, "PATH=/usr/bin:/bin", "TMPDIR=" + home}
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: user, Gid: user, NoSetGroups: user == uint32(os.Getuid())}}
	out, err := cmd.Output()
	if err != nil {
		var e *exec.ExitError
		if errors.As(err, &e) {
			t.Fatalf("as %d: %v\n%s", user, err, e.Stderr)
		}
		t.Fatal(err)
	}
	var result struct {
		Hash          string
		Deterministic bool
	}
	if err := json.Unmarshal(out, &result); err != nil || result.Hash == "" || !result.Deterministic {
		t.Fatalf("as %d: %v\n%s", user, err, out)
	}
	return result.Hash
}

// Nobody, who has no capabilities, gets the same run as root.
func TestReplayUnprivileged(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("SKIPPED: only root can become another user (all tests run without privileges already)")
	}
	dir := world(t)
	if root, other := replay(t, dir, 0), replay(t, dir, nobody); root != other {
		t.Errorf("as root %s, as nobody %s", root, other)
	}
}

// Killing opsim leaves no operator behind.
func TestKilledOpsimLeavesNothing(t *testing.T) {
	dir := world(t)
	cmd := exec.CommandContext(within(t), filepath.Join(dir, "opsim"), "replay", filepath.Join(dir, "t.optrace"), "--clock", "virtual",
		"--operator", filepath.Join(dir, "statusloop"), "--out", filepath.Join(t.TempDir(), "run.optrace"), "--limit", "100000h", "--start", "2000-01-01T00:00:00Z")
	var stderr strings.Builder
	cmd.Stderr = &stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	var left []int
	eventually(t, "the operator runs", func() bool {
		left = children(t, cmd.Process.Pid)
		return len(left) > 0
	}, &stderr)
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait() // killed
	eventually(t, fmt.Sprintf("the processes %v are gone", left), func() bool {
		for _, pid := range left {
			if err := syscall.Kill(pid, 0); !errors.Is(err, syscall.ESRCH) {
				return false
			}
		}
		return true
	}, &stderr)
}

// eventually waits for a condition that nobody announces.
func eventually(t *testing.T, what string, is func() bool, log fmt.Stringer) {
	t.Helper()
	for end := time.Now().Add(time.Minute); !is(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("not in a minute: %s\n%s", what, log)
		}
	}
}

// children are the processes that a process has started and that have become the operator.
func children(t *testing.T, parent int) (pids []int) {
	t.Helper()
	stats, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range stats {
		b, err := os.ReadFile(name)
		if err != nil {
			continue // it has ended
		}
		// pid (comm) state ppid …, see proc(5)
		head, rest, _ := strings.Cut(string(b), ") ")
		fields := strings.Fields(rest)
		if len(fields) < 2 || fields[1] != strconv.Itoa(parent) || !strings.Contains(head, "(statusloop") {
			continue
		}
		pid, err := strconv.Atoi(strings.Fields(head)[0])
		if err != nil {
			t.Fatal(err)
		}
		pids = append(pids, pid)
	}
	return pids
}
