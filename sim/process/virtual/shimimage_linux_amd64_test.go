package virtual

import (
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// hardenedEnv has this test run itself where memory files may not be executed.
const hardenedEnv = "VIRTUAL_TEST_HARDENED"

// What is written into a file without a name can be executed, wherever that lies.
func TestExecutable(t *testing.T) {
	if os.Getenv(hardenedEnv) != "" {
		harden(t)
	}
	path, err := exec.LookPath("false")
	if err != nil {
		t.Fatal(err)
	}
	program, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
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
			t.Errorf("%s: %v, want exit status 1", name, err)
		}
	}
}

// The same where the kernel refuses to execute files in memory (vm.memfd_noexec, which each PID namespace has its own of).
func TestExecutableHardened(t *testing.T) {
	if _, err := os.Stat(noexec); errors.Is(err, fs.ErrNotExist) {
		t.Skip("SKIPPED: this kernel does not refuse to execute files in memory (vm.memfd_noexec, Linux 6.3)")
	}
	cmd := exec.CommandContext(t.Context(), "/proc/self/exe", "-test.run=^TestExecutable$")
	cmd.Env = append(os.Environ(), hardenedEnv+"=1")
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: unix.CLONE_NEWPID | unix.CLONE_NEWNS, Pdeathsig: syscall.SIGKILL}
	out, err := cmd.CombinedOutput()
	if errors.Is(err, fs.ErrPermission) {
		t.Skip("SKIPPED: a PID namespace needs CAP_SYS_ADMIN: " + err.Error())
	}
	if err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}

const noexec = "/proc/sys/vm/memfd_noexec"

// harden has the kernel refuse to execute files in memory, in this process's own namespaces.
func harden(t *testing.T) {
	t.Helper()
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		t.Fatal(err)
	}
	if err := unix.Mount("proc", "/proc", "proc", 0, ""); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(noexec, []byte("2"), 0); err != nil {
		t.Fatal(err)
	}
	if _, err := memoryFile([]byte("x")); err == nil {
		t.Fatal("a file in memory is to be executable, where none may be")
	}
}
