package livecluster

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// victimEnv makes the test binary start a cluster, print its folder and wait to be killed.
const victimEnv = "OPREPLAY_LIVECLUSTER_VICTIM"

func victim() {
	c, err := Up(context.Background(), Options{Controllers: []string{"namespace-controller"}})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	fmt.Println(c.Dir())
	_, _ = os.Stdin.Read(make([]byte, 1)) // for ever
}

// needProc skips where there is no /proc to look for processes in.
func needProc(t *testing.T) {
	t.Helper()
	if _, err := os.Readlink("/proc/self/cwd"); err != nil {
		t.Skipf("SKIPPED: looking for processes that are left needs Linux's /proc: %v", err)
	}
}

// processesIn lists the processes that run in the folder DIR, as the servers of a cluster do.
func processesIn(t testing.TB, dir string) []string {
	t.Helper()
	links, err := filepath.Glob("/proc/[0-9]*/cwd")
	if err != nil {
		t.Fatal(err)
	}
	var found []string
	for _, link := range links {
		cwd, err := os.Readlink(link) // fails for what has just ended, and for zombies
		if err == nil && strings.TrimSuffix(cwd, " (deleted)") == dir {
			name, _ := os.ReadFile(filepath.Join(filepath.Dir(link), "comm"))
			found = append(found, strings.TrimSpace(string(name)))
		}
	}
	return found
}

func TestKilledOwnerLeavesNothing(t *testing.T) {
	needProc(t)
	tmp := t.TempDir()
	t.Setenv("TMPDIR", tmp)
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), victimEnv+"=1")
	cmd.Stderr = os.Stderr
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	defer stdin.Close()
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	dir, err := bufio.NewReader(stdout).ReadString('\n')
	if err != nil {
		t.Fatalf("the victim started no cluster: %v", err)
	}
	dir = strings.TrimSpace(dir)
	if got := len(processesIn(t, dir)); got != 3 {
		t.Errorf("%d servers run in %s, want 3", got, dir)
	}
	removeAbandoned()
	if _, err := os.Stat(filepath.Join(dir, "pki")); err != nil {
		t.Fatalf("the folder of a living cluster was taken for abandoned: %v", err)
	}

	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait()
	ctx := timed(t)
	for left := processesIn(t, dir); len(left) > 0; left = processesIn(t, dir) {
		select {
		case <-ctx.Done():
			t.Fatalf("left by the killed process: %v", left)
		case <-time.After(10 * time.Millisecond):
		}
	}
	c, err := Up(ctx, Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Stop()
	folders, err := filepath.Glob(filepath.Join(tmp, dirPattern))
	if err != nil {
		t.Fatal(err)
	}
	if len(folders) != 1 || folders[0] != c.Dir() {
		t.Errorf("after the next start there are %v, want only %s", folders, c.Dir())
	}
}
