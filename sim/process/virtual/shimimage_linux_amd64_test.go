package virtual

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// hardenedEnv has this test run itself where memory files may not be executed.
const hardenedEnv = "VIRTUAL_TEST_HARDENED"

// What is written into a file without a name can be executed, wherever it lies.
func TestExecutable(t *testing.T) {
	if os.Getenv(hardenedEnv) != "" {
		harden(t)
	}
	program, err := os.ReadFile("/bin/false")
	if err != nil {
		t.Skip("SKIPPED: there is no program to execute: " + err.Error())
	}
	for name, file := range map[string]func([]byte) (*os.File, error){"either": executable, "temporary": temporaryFile} {
		f, err := file(program)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		defer f.Close()
		cmd := exec.CommandContext(t.Context(), "/proc/self/fd/3")
		cmd.ExtraFiles = []*os.File{f}
		var exit *exec.ExitError
		if err := cmd.Run(); !errors.As(err, &exit) || exit.ExitCode() != 1 {
			t.Errorf("%s: %v, want what /bin/false says", name, err)
		}
	}
}

// The same where the kernel refuses to execute files in memory (vm.memfd_noexec, which each PID namespace has its own of).
func TestExecutableHardened(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("SKIPPED: a PID namespace with vm.memfd_noexec needs root")
	}
	cmd := exec.CommandContext(t.Context(), "/proc/self/exe", "-test.run=^TestExecutable$", "-test.v")
	cmd.Env = append(os.Environ(), hardenedEnv+"=1")
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: unix.CLONE_NEWPID | unix.CLONE_NEWNS, Pdeathsig: syscall.SIGKILL}
	out, err := cmd.CombinedOutput()
	if errors.Is(err, os.ErrPermission) {
		t.Skip("SKIPPED: no PID namespace may be made here: " + err.Error())
	}
	if err != nil {
		t.Errorf("%v\n%s", err, out)
	}
	if i := bytes.Index(out, []byte("SKIPPED")); i >= 0 {
		t.Skipf("%s", out[i:])
	}
}

// harden has the kernel refuse to execute files in memory, in this process's own namespaces.
func harden(t *testing.T) {
	t.Helper()
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		t.Skip("SKIPPED: no mounts may be made here: " + err.Error())
	}
	if err := unix.Mount("proc", "/proc", "proc", 0, ""); err != nil {
		t.Skip("SKIPPED: no /proc may be mounted here: " + err.Error())
	}
	if err := os.WriteFile("/proc/sys/vm/memfd_noexec", []byte("2"), 0); err != nil {
		t.Skip("SKIPPED: the kernel (before 6.3) does not refuse files in memory: " + err.Error())
	}
	if _, err := memoryFile([]byte("x")); err == nil {
		t.Fatal("a file in memory is to be executable, where none may be")
	}
}
