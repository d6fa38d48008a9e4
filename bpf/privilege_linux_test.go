package bpf

import (
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
)

// In a container with process numbers of its own, Check says so: the kernel's are others.
func TestProcessNumbersOfAContainer(t *testing.T) {
	if err := Check(false); err != nil {
		t.Skipf("SKIPPED: %v", err)
	}
	const inside = "BPF_TEST_INSIDE"
	if os.Getenv(inside) != "" {
		return
	}
	cmd := exec.Command(os.Args[0], "-test.run=^"+t.Name()+"$", "-test.v")
	cmd.Env = append(os.Environ(), inside+"=1")
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWPID}
	out, err := cmd.CombinedOutput()
	if err != nil || !strings.Contains(string(out), "hostPID: true") {
		t.Errorf("%v: %s", err, out)
	}
}
