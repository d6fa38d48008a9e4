package virtual

import (
	"bytes"
	"encoding/binary"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// vmCopy is process_vm_readv or process_vm_writev for one range.
func vmCopy(nr uintptr, tid int, addr uint64, b []byte) error {
	if len(b) == 0 {
		return nil
	}
	local := unix.Iovec{Base: &b[0], Len: uint64(len(b))}
	remote := unix.RemoteIovec{Base: uintptr(addr), Len: len(b)}
	n, _, e := syscall.RawSyscall6(nr, uintptr(tid), uintptr(unsafe.Pointer(&local)), 1, uintptr(unsafe.Pointer(&remote)), 1, 0)
	if e != 0 {
		return e
	}
	if int(n) != len(b) {
		return unix.EFAULT
	}
	return nil
}

// peek reads len(b) bytes of the thread's memory.
func (t *thread) peek(addr uint64, b []byte) error {
	return vmCopy(unix.SYS_PROCESS_VM_READV, t.tid, addr, b)
}

// poke writes b into the thread's memory.
func (t *thread) poke(addr uint64, b []byte) error {
	return vmCopy(unix.SYS_PROCESS_VM_WRITEV, t.tid, addr, b)
}

// peekSome reads up to len(b) bytes, stopping at the end of what is mapped.
func (t *thread) peekSome(addr uint64, b []byte) int {
	const page = 4096
	done := 0
	for done < len(b) {
		n := min(len(b)-done, page-int((addr+uint64(done))%page))
		if t.peek(addr+uint64(done), b[done:done+n]) != nil {
			break
		}
		done += n
	}
	return done
}

// peekString reads a NUL-terminated string of at most 4095 bytes.
func (t *thread) peekString(addr uint64) (string, error) {
	var buf [4096]byte
	for n := 0; n < len(buf); {
		want := min(256, len(buf)-n)
		got := t.peekSome(addr+uint64(n), buf[n:n+want])
		if i := bytes.IndexByte(buf[n:n+got], 0); i >= 0 {
			return string(buf[:n+i]), nil
		}
		if got < want {
			return "", unix.EFAULT
		}
		n += got
	}
	return "", unix.ENAMETOOLONG
}

func (t *thread) peek32(addr uint64) (uint32, error) {
	var v uint32
	err := t.peek(addr, (*[4]byte)(unsafe.Pointer(&v))[:])
	return v, err
}

func (t *thread) peek64(addr uint64) (uint64, error) {
	var v uint64
	err := t.peek(addr, (*[8]byte)(unsafe.Pointer(&v))[:])
	return v, err
}

func (t *thread) poke32(addr uint64, v uint32) error {
	return t.poke(addr, (*[4]byte)(unsafe.Pointer(&v))[:])
}

func (t *thread) poke64(addr uint64, v uint64) error {
	return t.poke(addr, (*[8]byte)(unsafe.Pointer(&v))[:])
}

// peekTime reads a struct timespec as nanoseconds; times beyond what an int64 holds become its largest value.
func (t *thread) peekTime(addr uint64) (int64, error) {
	var v [2]int64
	if err := t.peek(addr, (*[16]byte)(unsafe.Pointer(&v))[:]); err != nil {
		return 0, err
	}
	return timespecNanos(v[0], v[1])
}

func timespecNanos(sec, nsec int64) (int64, error) {
	if nsec < 0 || nsec >= 1e9 || sec < 0 {
		return 0, unix.EINVAL
	}
	return satAdd(satMul(sec, 1e9), nsec), nil
}

// pokeTime writes nanoseconds as a struct timespec (unit 1) or timeval (unit 1000).
func (t *thread) pokeTime(addr uint64, ns, unit int64) error {
	var b [16]byte
	binary.LittleEndian.PutUint64(b[:], uint64(ns/1e9))
	binary.LittleEndian.PutUint64(b[8:], uint64(ns%1e9/unit))
	return t.poke(addr, b[:])
}

// iovecs gathers what a readv-like vector points to, at most limit bytes.
func (t *thread) iovecs(addr uint64, count, limit int) ([]byte, error) {
	if count < 0 || count > 1024 {
		return nil, unix.EINVAL
	}
	vec := make([]byte, 16*count)
	if err := t.peek(addr, vec); err != nil {
		return nil, err
	}
	var out []byte
	for ; len(vec) > 0 && len(out) < limit; vec = vec[16:] {
		base, n := binary.LittleEndian.Uint64(vec), binary.LittleEndian.Uint64(vec[8:])
		n = min(n, uint64(limit-len(out)))
		part := make([]byte, n)
		if err := t.peek(base, part); err != nil {
			return nil, err
		}
		out = append(out, part...)
	}
	return out, nil
}

const maxTime = 1<<63 - 1

func satAdd(a, b int64) int64 {
	if b > 0 && a > maxTime-b {
		return maxTime
	}
	return a + b
}

func satMul(a, b int64) int64 {
	if a > maxTime/b {
		return maxTime
	}
	return a * b
}
