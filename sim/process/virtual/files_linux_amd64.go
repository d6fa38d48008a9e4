package virtual

import (
	"encoding/binary"
	"fmt"
	"maps"
	"os"
	"path"
	"slices"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// fileView is how a process sees some paths differently from its host.
type fileView struct {
	s       *Supervisor
	files   map[string][]byte
	dirs    map[string]bool // folders that the files are in
	hidden  []string
	exe     string // Spec.Exe
	realExe string
	open    map[string]int // anonymous files with the contents, made at first use
}

// newFileView adds to the Spec's files those that tell of the host's hardware or network.
func newFileView(s *Supervisor, p *Process) *fileView {
	cpus := "0\n"
	if s.opt.CPUs > 1 {
		cpus = fmt.Sprintf("0-%d\n", s.opt.CPUs-1)
	}
	v := &fileView{s: s, open: map[string]int{}, dirs: map[string]bool{}, files: map[string][]byte{
		"/sys/devices/system/cpu/online":                     []byte(cpus),
		"/sys/devices/system/cpu/possible":                   []byte(cpus),
		"/sys/kernel/mm/transparent_hugepage/hpage_pmd_size": []byte("2097152\n"),
		"/sys/kernel/mm/transparent_hugepage/enabled":        []byte("always [madvise] never\n"),
		"/proc/sys/kernel/hostname":                          []byte(p.spec.Hostname + "\n"),
		"/proc/sys/kernel/osrelease":                         []byte(kernelRelease + "\n"),
		"/proc/sys/net/core/somaxconn":                       []byte("4096\n"),
		"/proc/meminfo":                                      fmt.Appendf(nil, "MemTotal: %d kB\nMemFree: %d kB\nMemAvailable: %d kB\n", memoryTotal>>10, memoryTotal>>11, memoryTotal>>11),
		"/proc/loadavg":                                      []byte("0.00 0.00 0.00 1/1 1\n"),
		"/etc/hostname":                                      []byte(p.spec.Hostname + "\n"),
		"/etc/hosts":                                         []byte("127.0.0.1\tlocalhost\n::1\tlocalhost\n"),
		"/etc/resolv.conf":                                   []byte("nameserver 127.0.0.1\n"),
	}}
	if p.spec.Exe != "" {
		v.exe, v.realExe = p.spec.Exe, realExe(&p.spec)
	}
	v.hidden = append([]string{"/sys/fs/cgroup", "/proc/self/cgroup", "/proc/cpuinfo", "/proc/stat", "/proc/uptime", "/proc/self/mountinfo"}, p.spec.Hidden...)
	for name, b := range p.spec.Files {
		v.files[path.Clean(name)] = b
	}
	for name := range p.spec.Files {
		for dir := path.Dir(path.Clean(name)); dir != "/" && dir != "."; dir = path.Dir(dir) {
			v.dirs[dir] = true
		}
	}
	return v
}

func (v *fileView) close() {
	for _, name := range slices.Sorted(maps.Keys(v.open)) {
		unix.Close(v.open[name])
	}
	v.open = map[string]int{}
}

func (v *fileView) isHidden(name string) bool {
	if _, ok := v.files[name]; ok {
		return false
	}
	for _, h := range v.hidden {
		if name == h || strings.HasPrefix(name, h+"/") {
			return true
		}
	}
	return false
}

// reader opens a provided file anew, read-only, at its beginning.
func (v *fileView) reader(name string) (int, error) {
	fd, ok := v.open[name]
	if !ok {
		var err error
		if fd, err = unix.MemfdCreate(path.Base(name), unix.MFD_CLOEXEC); err != nil {
			return -1, err
		}
		f := os.NewFile(uintptr(fd), name)
		_, err = f.Write(v.files[name])
		dup, err2 := unix.FcntlInt(f.Fd(), unix.F_DUPFD_CLOEXEC, 0)
		f.Close()
		if err != nil || err2 != nil {
			return -1, unix.ENOSPC
		}
		fd = dup
		ts := unix.NsecToTimespec(v.s.start)
		_ = unix.UtimesNanoAt(unix.AT_FDCWD, fmt.Sprintf("/proc/self/fd/%d", fd), []unix.Timespec{ts, ts}, 0)
		_ = unix.Fchmod(fd, 0o444)
		v.open[name] = fd
	}
	return unix.Open(fmt.Sprintf("/proc/self/fd/%d", fd), unix.O_RDONLY|unix.O_CLOEXEC, 0)
}

// pathArg is the absolute path that a call names: argument i, relative to the descriptor dir (AT_FDCWD: the current
// folder). An empty string means that it names none.
func (t *thread) pathArg(a *[6]uint64, i int, dir int32) (string, error) {
	name, err := t.peekString(a[i])
	if err != nil || name == "" {
		return "", err
	}
	if path.IsAbs(name) {
		return t.ownProc(path.Clean(name)), nil
	}
	link := fmt.Sprintf("/proc/%d/cwd", t.p.pid)
	if dir != unix.AT_FDCWD {
		link = fmt.Sprintf("/proc/%d/fd/%d", t.p.pid, dir)
	}
	base, err := os.Readlink(link)
	if err != nil {
		return "", nil //nolint:nilerr // the kernel will say what is wrong
	}
	return t.ownProc(path.Join(base, name)), nil
}

// ownProc turns the process's folder in /proc, by the number that it has for itself, into /proc/self.
func (t *thread) ownProc(name string) string {
	if own := fmt.Sprintf("/proc/%d", t.p.visiblePid()); strings.HasPrefix(name, own+"/") || name == own {
		return "/proc/self" + name[len(own):]
	}
	return name
}

func (s *Supervisor) sysOpen(t *thread, a *[6]uint64) {
	dir, i := int32(unix.AT_FDCWD), 0
	if t.req.data.nr == unix.SYS_OPENAT {
		dir, i = int32(a[0]), 1
	}
	name, err := t.pathArg(a, i, dir)
	if err != nil {
		s.failErr(t, err)
		return
	}
	v, flags := t.p.root.files, a[i+1]
	switch _, provided := v.files[name]; {
	case name == "/dev/urandom" || name == "/dev/random":
		s.giveFile(t, func() (int, error) { return t.p.randomFile() }, flags)
	case v.isExe(name):
		s.giveFile(t, func() (int, error) { return unix.Open(v.realExe, unix.O_RDONLY|unix.O_CLOEXEC, 0) }, flags)
	case provided && flags&(unix.O_WRONLY|unix.O_RDWR) != 0:
		s.fail(t, unix.EROFS)
	case provided:
		s.giveFile(t, func() (int, error) { return v.reader(name) }, flags)
	case v.isHidden(name):
		s.fail(t, unix.ENOENT)
	case strings.HasPrefix(name, "/proc/self/") && t.p.visiblePid() == 1 && s.namesPid1(t, a[i]):
		real := fmt.Sprintf("/proc/%d/%s", t.p.pid, strings.TrimPrefix(name, "/proc/self/"))
		s.giveFile(t, func() (int, error) { return unix.Open(real, int(flags)|unix.O_CLOEXEC, 0) }, flags)
	default:
		s.pass(t)
	}
}

// randomBytes is how many random bytes one opening of /dev/urandom has. Everything of today asks getrandom.
const randomBytes = 1 << 20

// randomFile is an anonymous file of the process's own randomness.
func (p *proc) randomFile() (int, error) {
	fd, err := unix.MemfdCreate("urandom", unix.MFD_CLOEXEC)
	if err != nil {
		return -1, err
	}
	b := make([]byte, randomBytes)
	_, _ = p.rng.Read(b) // it never fails
	if n, err := unix.Pwrite(fd, b, 0); err != nil || n != len(b) {
		unix.Close(fd)
		return -1, unix.ENOSPC
	}
	return fd, nil
}

// namesPid1 says whether the path was really /proc/1: the host's first process must not be opened in its place.
func (s *Supervisor) namesPid1(t *thread, addr uint64) bool {
	name, err := t.peekString(addr)
	return err == nil && strings.HasPrefix(path.Clean(name), "/proc/1/")
}

// giveFile answers an open with a file that open opens.
func (s *Supervisor) giveFile(t *thread, open func() (int, error), flags uint64) {
	fd, err := open()
	if err != nil {
		s.failErr(t, err)
		return
	}
	defer unix.Close(fd)
	if _, e := s.install(t, fd, flags&unix.O_CLOEXEC != 0); e != 0 {
		s.fail(t, e)
	}
}

// statArgs says where a call of sysStat has its path, its folder and its result.
func statArgs(nr int32, a *[6]uint64) (dir int32, name, out int) {
	switch nr {
	case unix.SYS_STAT, unix.SYS_LSTAT, unix.SYS_ACCESS, unix.SYS_READLINK:
		return unix.AT_FDCWD, 0, 1
	case unix.SYS_STATX:
		return int32(a[0]), 1, 4
	}
	return int32(a[0]), 1, 2
}

// sysStat answers questions about provided and hidden files: stat, access, readlink and their kin.
func (s *Supervisor) sysStat(t *thread, a *[6]uint64) {
	dir, i, out := statArgs(t.req.data.nr, a)
	name, err := t.pathArg(a, i, dir)
	if err != nil || name == "" {
		s.pass(t)
		return
	}
	v := t.p.root.files
	b, isFile := v.files[name]
	if nr := t.req.data.nr; (nr == unix.SYS_READLINK || nr == unix.SYS_READLINKAT) && t.linksToExe(name) {
		s.readExe(t, a, out)
		return
	}
	if v.isExe(name) {
		s.okOr(t, 0, s.pokeStat(t, a[out], a, unix.S_IFREG|0o555, v.exeSize(), ino(name)))
		return
	}
	isDir := !isFile && v.dirs[name]
	var realErr error
	if isDir {
		_, realErr = os.Lstat(name)
	}
	switch {
	case !isFile && v.isHidden(name):
		s.fail(t, unix.ENOENT)
	case !isFile && (!isDir || realErr == nil):
		s.pass(t)
	default:
		s.okOr(t, 0, s.pokeStat(t, a[out], a, fileMode(isDir), len(b), ino(name)))
	}
}

// ino makes a file number from a name.
func ino(name string) uint64 {
	h := uint64(14695981039346656037)
	for _, c := range []byte(name) {
		h = (h ^ uint64(c)) * 1099511628211
	}
	return h >> 33
}

func fileMode(isDir bool) uint32 {
	if isDir {
		return unix.S_IFDIR | 0o555
	}
	return unix.S_IFREG | 0o444
}

func (s *Supervisor) pokeStat(t *thread, addr uint64, a *[6]uint64, mode uint32, size int, ino uint64) error {
	if mode&unix.S_IFMT == unix.S_IFDIR {
		size = 4096
	}
	switch t.req.data.nr {
	case unix.SYS_ACCESS:
		return accessErr(a[1])
	case unix.SYS_FACCESSAT, unix.SYS_FACCESSAT2:
		return accessErr(a[2])
	case unix.SYS_READLINK, unix.SYS_READLINKAT:
		return unix.EINVAL // not a link
	case unix.SYS_STATX:
		return t.poke(addr, statxBytes(mode, uint64(size), ino, s.start))
	}
	return t.poke(addr, statBytes(mode, uint64(size), ino, s.start))
}

func accessErr(mode uint64) error {
	if mode&unix.W_OK != 0 {
		return syscall.EROFS
	}
	return nil
}

// statBytes is a struct stat of amd64.
func statBytes(mode uint32, size, ino uint64, at int64) []byte {
	b := make([]byte, 144)
	le := binary.LittleEndian
	le.PutUint64(b[0:], 1) // device
	le.PutUint64(b[8:], ino)
	le.PutUint64(b[16:], 1) // links
	le.PutUint32(b[24:], mode)
	le.PutUint64(b[48:], size)
	le.PutUint64(b[56:], 4096)
	le.PutUint64(b[64:], (size+511)/512)
	for off := 72; off < 120; off += 16 {
		le.PutUint64(b[off:], uint64(at/1e9))
		le.PutUint64(b[off+8:], uint64(at%1e9))
	}
	return b
}

// statxBytes is a struct statx.
func statxBytes(mode uint32, size, ino uint64, at int64) []byte {
	b := make([]byte, 256)
	le := binary.LittleEndian
	le.PutUint32(b[0:], 0x7ff) // STATX_BASIC_STATS
	le.PutUint32(b[4:], 4096)
	le.PutUint32(b[16:], 1)
	le.PutUint16(b[28:], uint16(mode))
	le.PutUint64(b[32:], ino)
	le.PutUint64(b[40:], size)
	le.PutUint64(b[48:], (size+511)/512)
	for off := 64; off < 128; off += 16 {
		le.PutUint64(b[off:], uint64(at/1e9))
		le.PutUint32(b[off+8:], uint32(at%1e9))
	}
	le.PutUint32(b[140:], 1) // device, minor
	return b
}

// sysInotifyAddWatch accepts a watch on a provided file, which never changes.
func (s *Supervisor) sysInotifyAddWatch(t *thread, a *[6]uint64) {
	name, err := t.pathArg(a, 1, unix.AT_FDCWD)
	v := t.p.root.files
	if _, ok := v.files[name]; err == nil && (ok || v.dirs[name]) {
		t.p.root.nextWatch++
		s.ok(t, 1_000_000+int64(t.p.root.nextWatch))
		return
	}
	s.pass(t)
}
