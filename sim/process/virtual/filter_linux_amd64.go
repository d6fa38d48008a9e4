package virtual

import (
	"golang.org/x/sys/unix"
)

// Offsets in struct seccomp_data (include/uapi/linux/seccomp.h).
const (
	offNR   = 0
	offArch = 4
	offIP   = 8
	offArgs = 16
)

const (
	retAllow  = 0x7fff0000 // SECCOMP_RET_ALLOW
	retNotify = 0x7fc00000 // SECCOMP_RET_USER_NOTIF
	retErrno  = 0x00050000 // SECCOMP_RET_ERRNO, low 16 bits: the errno

	auditX8664 = 0xc000003e
	x32Bit     = 0x40000000

	// shimMagic marks the shim's own calls between installing the filter and exec. The kernel ignores the bits
	// that carry it (upper half of sendmsg's flags, execve's fourth argument).
	shimMagic = 0x6f707368
)

// condition says for which calls of a number the filter stops the thread.
type condition uint8

const (
	always condition = iota
	// mayBlock: not when the call comes from the text of a static Go program, whose descriptors never block
	// (the runtime polls them), unless it is about one of the three standard ones.
	mayBlock
	// mayWait: not when the call comes from the text of a static Go program and has no time-out: it asks what is
	// ready, and the answer is the same whoever gives it, as nothing moves but the thread that asks.
	mayWait
	dupOnly    // fcntl: only F_DUPFD and F_DUPFD_CLOEXEC
	notShim    // execve, sendmsg: unless it bears shimMagic
	denyNoSys  // ENOSYS without asking: programs fall back to something that can be supervised
	denyAccess // EPERM without asking
)

// goText is the address range of a static Go program's code; zero means that the program is none.
type goText struct{ lo, hi uint32 }

func stmt(code uint16, k uint32) unix.SockFilter { return unix.SockFilter{Code: code, K: k} }

func jump(code uint16, k uint32, jt, jf int) unix.SockFilter {
	return unix.SockFilter{Code: unix.BPF_JMP | unix.BPF_K | code, Jt: uint8(jt), Jf: uint8(jf), K: k}
}

func load(off uint32) unix.SockFilter { return stmt(unix.BPF_LD|unix.BPF_W|unix.BPF_ABS, off) }
func ret(k uint32) unix.SockFilter    { return stmt(unix.BPF_RET|unix.BPF_K, k) }

// assemble builds the filter program: one block a trapped number, tried in order.
func assemble(table []trap, text goText) []unix.SockFilter {
	prog := []unix.SockFilter{
		load(offArch),
		jump(unix.BPF_JEQ, auditX8664, 1, 0),
		ret(retErrno | uint32(unix.ENOSYS)), // 32-bit calls
		load(offNR),
		jump(unix.BPF_JGE, x32Bit, 0, 1),
		ret(retErrno | uint32(unix.ENOSYS)), // x32 calls
	}
	for _, e := range table {
		body := block(e, text)
		prog = append(prog, jump(unix.BPF_JEQ, e.nr, 0, len(body)))
		prog = append(prog, body...)
	}
	return append(prog, ret(retAllow))
}

// block is what is done for one number. It ends in a return on every path.
func block(e trap, text goText) []unix.SockFilter {
	switch e.when {
	case denyNoSys:
		return []unix.SockFilter{ret(retErrno | uint32(unix.ENOSYS))}
	case denyAccess:
		return []unix.SockFilter{ret(retErrno | uint32(unix.EPERM))}
	case dupOnly:
		return []unix.SockFilter{
			load(offArgs + 8),
			jump(unix.BPF_JEQ, unix.F_DUPFD, 2, 0),
			jump(unix.BPF_JEQ, unix.F_DUPFD_CLOEXEC, 1, 0),
			ret(retAllow),
			ret(retNotify),
		}
	case notShim:
		off := uint32(offArgs + 8*3) // execve: argument 3
		if e.nr == unix.SYS_SENDMSG {
			off = offArgs + 8*2 + 4 // upper half of argument 2
		}
		return append([]unix.SockFilter{
			load(off),
			jump(unix.BPF_JEQ, shimMagic, 0, 1),
			ret(retAllow),
		}, block(trap{nr: e.nr, when: then(e)}, text)...)
	case mayBlock:
		if text.hi == 0 {
			break
		}
		return unlessGo(text, offArgs, jump(unix.BPF_JGT, 2, 0, 6)) // standard descriptors: stop
	case mayWait:
		if text.hi == 0 {
			break
		}
		return unlessGo(text, offArgs+8*3, jump(unix.BPF_JEQ, 0, 0, 6))
	case always:
	}
	return []unix.SockFilter{ret(retNotify)}
}

// unlessGo stops the thread unless an argument is as WANT says (else it goes six on) and the call comes from the text.
func unlessGo(text goText, arg uint32, want unix.SockFilter) []unix.SockFilter {
	return []unix.SockFilter{
		load(arg),
		want,
		load(offIP + 4),
		jump(unix.BPF_JEQ, 0, 0, 4),
		load(offIP),
		jump(unix.BPF_JGE, text.lo, 0, 2),
		jump(unix.BPF_JGE, text.hi, 1, 0),
		ret(retAllow),
		ret(retNotify),
	}
}

// then is the condition that remains for a call that is not the shim's.
func then(e trap) condition {
	if e.nr == unix.SYS_SENDMSG {
		return mayBlock
	}
	return always
}
