package bpf

import (
	"errors"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"syscall"
	"testing"

	"github.com/opreplay/opreplay/bpf/internal/guest"
	"github.com/opreplay/opreplay/bpf/symbols"
)

// In a container with process numbers of its own, Check says so: the kernel's are others. Likewise with users of its
// own, whose root has capabilities that count for nothing.
func TestContainers(t *testing.T) {
	if err := Check(false); err != nil {
		t.Skipf("SKIPPED: %v", err)
	}
	const inside = "BPF_TEST_INSIDE"
	if os.Getenv(inside) != "" {
		return
	}
	root := []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getuid(), Size: 1}}
	for want, attr := range map[string]*syscall.SysProcAttr{
		"hostPID: true":   {Cloneflags: syscall.CLONE_NEWPID},
		"hostUsers: true": {Cloneflags: syscall.CLONE_NEWUSER, UidMappings: root, GidMappings: root},
	} {
		cmd := exec.Command(os.Args[0], "-test.run=^"+t.Name()+"$", "-test.v")
		cmd.Env = append(os.Environ(), inside+"=1")
		cmd.SysProcAttr = attr
		out, err := cmd.CombinedOutput()
		if err != nil || !strings.Contains(string(out), want) {
			t.Errorf("%s: %v: %s", want, err, out)
		}
	}
}

// Without privileges it is said in one sentence what is missing; code is named all the same.
func TestWithoutPrivileges(t *testing.T) {
	if !guest.Nobody(t) {
		return
	}
	const want = "eBPF recording lacks CAP_BPF and CAP_PERFMON"
	if _, err := NewProcesses(); err == nil || !strings.HasPrefix(err.Error(), want) || strings.Contains(err.Error(), "\n") {
		t.Errorf("%v", err)
	}
	if err := Check(true); err == nil || !strings.Contains(err.Error(), "CAP_SYS_PTRACE (another user's process)") {
		t.Errorf("%v", err)
	}
	self, err := symbols.OpenProcess(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	pc, _, _, _ := runtime.Caller(0)
	if frames := self.Frames(uint64(pc) - 1); !strings.HasSuffix(frames[0].Function, "TestWithoutPrivileges") {
		t.Errorf("%+v", frames)
	}
	if _, err := symbols.OpenKernel(); err != nil && !errors.Is(err, symbols.ErrKernelHidden) {
		t.Errorf("%v", err)
	}
}
