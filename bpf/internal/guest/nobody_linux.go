package guest

import (
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
)

// insideName is set in the environment of a test that runs itself.
const insideName = "BPF_TEST_AS_NOBODY"

const nobody = 65534

// Nobody says whether the test runs as the user nobody, having run itself: else it has run itself so, with nothing but
// the capabilities CAPS (capabilities(7)), and hands its failure on.
func Nobody(t *testing.T, caps ...uintptr) (inside bool) {
	t.Helper()
	if os.Getenv(insideName) != "" {
		return true
	}
	if os.Getuid() != 0 {
		if len(caps) == 0 {
			return true // without privileges as it is
		}
		t.Skip("SKIPPED: only root can become another user with some of its capabilities")
	}
	folder, err := os.MkdirTemp("", "nobody-") // t.TempDir lies in folders that others may not enter
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(folder) })
	path := filepath.Join(folder, "test")
	if err := publish(folder, path); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(path, "-test.run=^"+t.Name()+"$", "-test.v")
	cmd.Dir = folder
	cmd.Env = append(os.Environ(), insideName+"=1")
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}, AmbientCaps: caps}
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("as nobody: %v\n%s", err, out)
	}
	return false
}

// publish copies the test's own program to where everybody may run it.
func publish(folder, path string) error {
	in, err := os.Open("/proc/self/exe")
	if err != nil {
		return err
	}
	defer in.Close() //nolint:errcheck // only read
	out, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY|os.O_EXCL, 0o755)
	if err != nil {
		return err
	}
	if _, err := io.Copy(out, in); err != nil {
		return err
	}
	if err := out.Close(); err != nil {
		return err
	}
	return os.Chmod(folder, 0o755)
}
