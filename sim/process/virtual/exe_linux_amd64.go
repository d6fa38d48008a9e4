package virtual

import (
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// ownExe is the link to a process's own program.
const ownExe = "/proc/self/exe"

// realExe is where the program of a Spec really is, as the kernel says it.
func realExe(spec *Spec) string {
	if real, err := filepath.EvalSymlinks(spec.Path); err == nil {
		return real
	}
	return spec.Path
}

// isExe says whether the path is the one at which the process sees its own program, though it is elsewhere.
func (v *fileView) isExe(name string) bool { return v.exe != "" && name == v.exe }

// exeSize is the program's size in bytes.
func (v *fileView) exeSize() int {
	info, err := os.Stat(v.realExe)
	if err != nil {
		return 0
	}
	return int(info.Size())
}

// linksToExe says whether the path is the link to the process's own program, and that is what was started: a child
// may have become another.
func (t *thread) linksToExe(name string) bool {
	v := t.p.root.files
	if v.exe == "" || name != ownExe {
		return false
	}
	at, err := os.Readlink(fmt.Sprintf("/proc/%d/exe", t.p.pid))
	return err == nil && at == v.realExe
}

// readExe answers a readlink of the link to the own program.
func (s *Supervisor) readExe(t *thread, a *[6]uint64, out int) {
	b := []byte(t.p.root.files.exe)
	b = b[:min(uint64(len(b)), a[out+1])]
	s.okOr(t, int64(len(b)), t.poke(a[out], b))
}

// execsExe has an exec of the path at which the process sees its own program find it: nothing is there, so the call
// is made to name the kernel's link to it, which is shorter.
func (s *Supervisor) execsExe(t *thread, a *[6]uint64) {
	i := 0
	if t.req.data.nr == unix.SYS_EXECVEAT {
		i = 1
	}
	v := t.p.root.files
	if name, err := t.peekString(a[i]); err == nil && v.isExe(name) && len(name) >= len(ownExe) {
		_ = t.poke(a[i], append([]byte(ownExe), 0)) // if it fails, so will the exec
	}
}
