package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/opreplay/opreplay/internal/clitest"
)

const nobody = 65534

// asNobody runs oprec without any capability: root's tests as the user nobody, others' as who they are.
func asNobody(t *testing.T, args ...string) (code int, stderr string) {
	t.Helper()
	if os.Getuid() != 0 {
		got := clitest.Run(t, args...)
		return got.Code, got.Stderr
	}
	folder, err := os.MkdirTemp("", "oprec-nobody-") // t.TempDir lies in folders that others may not enter
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(folder) })
	cmd := clitest.Command(t, args...)
	program := filepath.Join(folder, "oprec")
	content, err := os.ReadFile(cmd.Path)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(program, content, 0o755); err != nil { //nolint:gosec // others shall run it
		t.Fatal(err)
	}
	for _, change := range []error{os.Chmod(folder, 0o755), os.Chown(folder, nobody, nobody)} { //nolint:gosec // likewise
		if change != nil {
			t.Fatal(change)
		}
	}
	cmd.Path, cmd.Dir = program, folder
	cmd.Env = append(cmd.Env, "HOME="+folder, "TMPDIR="+folder)
	var out bytes.Buffer
	cmd.Stderr = &out
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}}
	_ = cmd.Run() // its code says how
	return cmd.ProcessState.ExitCode(), out.String()
}

// Without privileges each command says in a line what it can't do, and does the rest where there is any.
func TestWithoutPrivileges(t *testing.T) {
	config := kubeconfig(t, emptyAPI(t))
	content, err := os.ReadFile(config)
	if err != nil {
		t.Fatal(err)
	}
	public, err := os.MkdirTemp("", "oprec-config-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(public) })
	config = filepath.Join(public, "kubeconfig")
	if err := os.WriteFile(config, content, 0o600); err != nil {
		t.Fatal(err)
	}
	if os.Getuid() == 0 {
		for _, change := range []error{os.Chown(config, nobody, nobody), os.Chown(public, nobody, nobody)} {
			if change != nil {
				t.Fatal(change)
			}
		}
	}
	const lacks = "eBPF recording lacks CAP_BPF and CAP_PERFMON"
	for _, c := range []struct {
		name string
		args []string
		code int
		want []string
	}{
		{"run", []string{"run", "--kubeconfig", config, "--out", "t.optrace", "--no-capture", "--", "/bin/sh", "-c", "exit 0"}, 0, []string{"recording without reconciles, stacks and samples: " + lacks, "recorded 0 events"}},
		{"run --ebpf on", []string{"run", "--kubeconfig", config, "--out", "t.optrace", "--no-capture", "--ebpf", "on", "--", "/bin/sh", "-c", "exit 0"}, 3, []string{"--ebpf on: " + lacks}},
		{"capture --pid", []string{"capture", "--kubeconfig", config, "--out", "t.optrace", "--pid", "1", "--duration", "1s"}, 3, []string{"--pid 1: " + lacks}},
		{"capture", []string{"capture", "--kubeconfig", config, "--out", "t.optrace", "--duration", "1s"}, 0, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			code, stderr := asNobody(t, c.args...)
			if code != c.code {
				t.Errorf("exit code %d, want %d", code, c.code)
			}
			for _, want := range c.want {
				if !strings.Contains(stderr, want) {
					t.Errorf("no %q", want)
				}
			}
			if t.Failed() || c.code != 0 && strings.Count(stderr, "\n") != 1 {
				t.Errorf("it says\n%s", stderr)
			}
		})
	}
}
