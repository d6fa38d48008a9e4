package virtual

import (
	"encoding/binary"
	"testing"

	"golang.org/x/sys/unix"
)

// interpret runs a filter on a call as the kernel does, for the instructions that assemble uses.
func interpret(t *testing.T, prog []unix.SockFilter, d seccompData) uint32 {
	t.Helper()
	var b [64]byte
	binary.LittleEndian.PutUint32(b[offNR:], uint32(d.nr))
	binary.LittleEndian.PutUint32(b[offArch:], d.arch)
	binary.LittleEndian.PutUint64(b[offIP:], d.ip)
	for i, v := range d.args {
		binary.LittleEndian.PutUint64(b[offArgs+8*i:], v)
	}
	var acc uint32
	for pc := 0; pc < len(prog); pc++ {
		in := prog[pc]
		var yes bool
		switch in.Code {
		case unix.BPF_LD | unix.BPF_W | unix.BPF_ABS:
			acc = binary.LittleEndian.Uint32(b[in.K:])
			continue
		case unix.BPF_RET | unix.BPF_K:
			return in.K
		case unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K:
			yes = acc == in.K
		case unix.BPF_JMP | unix.BPF_JGE | unix.BPF_K:
			yes = acc >= in.K
		case unix.BPF_JMP | unix.BPF_JGT | unix.BPF_K:
			yes = acc > in.K
		default:
			t.Fatalf("instruction %d: %+v", pc, in)
		}
		if yes {
			pc += int(in.Jt)
		} else {
			pc += int(in.Jf)
		}
	}
	t.Fatal("the filter has no end")
	return 0
}

func TestFilter(t *testing.T) {
	static := goText{0x401000, 0x500000}
	const inGo, inC, x64 = 0x402000, 0x7fff_f7e0_0000, auditX8664
	noSys := retErrno | uint32(unix.ENOSYS)
	for name, c := range map[string]struct {
		text goText
		d    seccompData
		want uint32
	}{
		"not trapped":                 {static, seccompData{nr: unix.SYS_MMAP, arch: x64}, retAllow},
		"trapped":                     {static, seccompData{nr: unix.SYS_FUTEX, arch: x64, ip: inGo}, retNotify},
		"the last of the table":       {static, seccompData{nr: unix.SYS_SETTIMEOFDAY, arch: x64}, retErrno | uint32(unix.EPERM)},
		"32-bit":                      {static, seccompData{nr: unix.SYS_MMAP, arch: 0x40000003}, noSys},
		"x32":                         {static, seccompData{nr: unix.SYS_MMAP | x32Bit, arch: x64}, noSys},
		"io_uring":                    {static, seccompData{nr: unix.SYS_IO_URING_SETUP, arch: x64}, noSys},
		"read by Go":                  {static, seccompData{nr: unix.SYS_READ, arch: x64, ip: inGo, args: [6]uint64{5}}, retAllow},
		"read of stdin by Go":         {static, seccompData{nr: unix.SYS_READ, arch: x64, ip: inGo}, retNotify},
		"write to stderr by Go":       {static, seccompData{nr: unix.SYS_WRITE, arch: x64, ip: inGo, args: [6]uint64{2}}, retNotify},
		"read by C":                   {static, seccompData{nr: unix.SYS_READ, arch: x64, ip: inC, args: [6]uint64{5}}, retNotify},
		"read just below the text":    {static, seccompData{nr: unix.SYS_READ, arch: x64, ip: 0x400fff, args: [6]uint64{5}}, retNotify},
		"read just above the text":    {static, seccompData{nr: unix.SYS_READ, arch: x64, ip: 0x500000, args: [6]uint64{5}}, retNotify},
		"read 4 GiB above":            {static, seccompData{nr: unix.SYS_READ, arch: x64, ip: inGo + 1<<32, args: [6]uint64{5}}, retNotify},
		"read by a dynamic program":   {goText{}, seccompData{nr: unix.SYS_READ, arch: x64, ip: inGo, args: [6]uint64{5}}, retNotify},
		"a poll by Go":                {static, seccompData{nr: unix.SYS_EPOLL_PWAIT, arch: x64, ip: inGo, args: [6]uint64{4}}, retAllow},
		"a poll by C":                 {static, seccompData{nr: unix.SYS_EPOLL_PWAIT, arch: x64, ip: inC, args: [6]uint64{4}}, retNotify},
		"a wait by Go":                {static, seccompData{nr: unix.SYS_EPOLL_PWAIT, arch: x64, ip: inGo, args: [6]uint64{4, 0, 0, 1}}, retNotify},
		"an endless wait by Go":       {static, seccompData{nr: unix.SYS_EPOLL_PWAIT, arch: x64, ip: inGo, args: [6]uint64{4, 0, 0, 0xffffffff}}, retNotify},
		"dup by fcntl":                {static, seccompData{nr: unix.SYS_FCNTL, arch: x64, args: [6]uint64{5, unix.F_DUPFD}}, retNotify},
		"dup by fcntl, close on exec": {static, seccompData{nr: unix.SYS_FCNTL, arch: x64, args: [6]uint64{5, unix.F_DUPFD_CLOEXEC}}, retNotify},
		"other fcntl":                 {static, seccompData{nr: unix.SYS_FCNTL, arch: x64, args: [6]uint64{5, unix.F_GETFL}}, retAllow},
		"the shim's exec":             {static, seccompData{nr: unix.SYS_EXECVE, arch: x64, args: [6]uint64{1, 2, 3, shimMagic}}, retAllow},
		"the program's exec":          {static, seccompData{nr: unix.SYS_EXECVE, arch: x64, args: [6]uint64{1, 2, 3, 4}}, retNotify},
		"the shim's sendmsg":          {static, seccompData{nr: unix.SYS_SENDMSG, arch: x64, args: [6]uint64{3, 1, shimMagic << 32}}, retAllow},
		"a sendmsg of C":              {static, seccompData{nr: unix.SYS_SENDMSG, arch: x64, ip: inC, args: [6]uint64{3, 1, 0}}, retNotify},
		"a sendmsg of Go":             {static, seccompData{nr: unix.SYS_SENDMSG, arch: x64, ip: inGo, args: [6]uint64{3, 1, 0}}, retAllow},
		"the call after mapping":      {static, seccompData{nr: bootNr, arch: x64}, retNotify},
		"a clock read past the vDSO":  {static, seccompData{nr: unix.SYS_CLOCK_GETTIME, arch: x64, ip: inGo}, retNotify},
		"an unknown call":             {static, seccompData{nr: 10_000, arch: x64}, retAllow},
	} {
		if got := interpret(t, assemble(traps(), c.text), c.d); got != c.want {
			t.Errorf("%s: %#x, want %#x", name, got, c.want)
		}
	}
}

// TestTable checks that no number is in the table twice: the second would never be reached.
func TestTable(t *testing.T) {
	seen := map[uint32]string{}
	for _, e := range traps() {
		if other, ok := seen[e.nr]; ok {
			t.Errorf("%s and %s have one number", e.name, other)
		}
		seen[e.nr] = e.name
	}
	if n := len(assemble(traps(), goText{1, 2})); n > 4096 {
		t.Errorf("the filter has %d instructions, the kernel takes 4096", n)
	}
}
