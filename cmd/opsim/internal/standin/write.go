package standin

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"

	"github.com/spf13/cobra"

	"github.com/opreplay/opreplay/internal/cli"
)

const (
	apiServer = "kube-apiserver"
	etcd      = "etcd"
	kubectl   = "kubectl"
)

// For is the command that a program called NAME is to be, or nil.
func For(name string) *cobra.Command {
	switch strings.TrimSuffix(filepath.Base(name), ".exe") {
	case apiServer:
		return newAPIServerCmd()
	case etcd:
		return newEtcdCmd()
	}
	return nil
}

// Write puts the stand-ins into the folder DIR, which is made if need be: links to the program OPSIM, and
// one to the kubectl on PATH if there is any. hasKubectl says whether there is. Stand-ins that are there
// already are replaced; a file that is none is left alone and an error.
func Write(dir, opsim string) (hasKubectl bool, err error) {
	if err := os.MkdirAll(dir, 0o755); err != nil { //nolint:gosec // holds programs, nothing secret
		return false, cli.Usagef("--assets: %w", err)
	}
	for _, name := range []string{apiServer, etcd} {
		if err := place(opsim, filepath.Join(dir, name+suffix())); err != nil {
			return false, err
		}
	}
	path, err := exec.LookPath(kubectl)
	if err != nil {
		return false, nil //nolint:nilerr // said by the result
	}
	if path, err = filepath.Abs(path); err != nil {
		return false, err
	}
	target := filepath.Join(dir, kubectl+suffix())
	if _, err := os.Stat(target); err == nil {
		return true, nil
	}
	return true, place(path, target)
}

func suffix() string {
	if runtime.GOOS == "windows" {
		return ".exe"
	}
	return ""
}

// place makes the file AT a link to PROGRAM, or a copy where links are not to be had.
func place(program, at string) error {
	old, err := os.Lstat(at)
	switch {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return cli.Usagef("--assets: %w", err)
	case old.Mode()&fs.ModeSymlink == 0 && runtime.GOOS != "windows":
		return cli.Usagef("--assets: %s is there already and is no stand-in: name another folder", at)
	default:
		if err := os.Remove(at); err != nil {
			return cli.CannotRun(err)
		}
	}
	if err := os.Symlink(program, at); err == nil {
		return nil
	}
	return cli.CannotRun(copyFile(program, at))
}

func copyFile(from, to string) error {
	in, err := os.Open(from) //nolint:gosec // our own program
	if err != nil {
		return err
	}
	defer in.Close()                                                      //nolint:errcheck // only read
	out, err := os.OpenFile(to, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o755) //nolint:gosec // a program
	if err != nil {
		return err
	}
	if _, err := io.Copy(out, in); err != nil {
		_ = out.Close()
		return fmt.Errorf("copy %s: %w", from, err)
	}
	return out.Close()
}
