package virtual

import (
	"debug/elf"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
)

// auxv entries that matter (include/uapi/linux/auxvec.h).
const (
	atRandom      = 25
	atSysinfoEhdr = 33
)

// boot prepares a program that has just been executed. t stands in its very first trap, before it has read the clock
// or its random bytes. The vDSO is patched, and the thread is sent on a detour, on its way back from that trap,
// through code that maps the page with the clock. No ptrace is needed. Afterwards t stands in the trap bootNr.
func (s *Supervisor) boot(t *thread) error {
	t.p.needsBoot = false
	mem, err := os.OpenFile(fmt.Sprintf("/proc/%d/mem", t.tid), os.O_RDWR, 0)
	if err != nil {
		return &Error{"prepare " + t.p.name(), "its memory cannot be opened", err}
	}
	defer mem.Close()
	vdso, random, err := auxv(t.tid)
	if err != nil {
		return &Error{"prepare " + t.p.name(), "it has no auxiliary vector", err}
	}
	var seed [16]byte
	_, _ = t.p.rng.Read(seed[:])            // it never fails
	seed[0], seed[8] = seed[0]|1, seed[8]|1 // a zero half means none
	if err := t.poke(random, seed[:]); err != nil {
		return &Error{"prepare " + t.p.name(), "its memory cannot be written (process_vm_writev)", err}
	}
	fd, e := s.addFd(t, s.cellFd, true, 0)
	if e != 0 {
		return &Error{"prepare " + t.p.name(), "no descriptor can be installed", e}
	}
	resume := t.req.data.ip
	var saved [14]byte
	if _, err := mem.ReadAt(saved[:], int64(resume)); err != nil {
		return err
	}
	entry, err := s.patchVdso(mem, vdso, fd, resume)
	if err != nil {
		return err
	}
	detour := binary.LittleEndian.AppendUint64([]byte{0xff, 0x25, 0, 0, 0, 0}, entry) // jmp [rip]
	if _, err := mem.WriteAt(detour, int64(resume)); err != nil {
		return &Error{"prepare " + t.p.name(), "its code cannot be written", err}
	}
	if err := s.detour(t); err != nil {
		return err
	}
	if _, err := mem.WriteAt(saved[:], int64(resume)); err != nil {
		return &Error{"prepare " + t.p.name(), "its code cannot be written", err}
	}
	if got := t.req.data.args[0]; got != cellAddr {
		return &Error{"prepare " + t.p.name(), fmt.Sprintf("the clock's page could not be mapped (%d)", int64(got)), nil}
	}
	return nil
}

// detour lets t go and waits until it has mapped the page. The close of the page's descriptor traps on the way.
func (s *Supervisor) detour(t *thread) error {
	s.pass(t)
	for range 100 {
		if _, err := s.receiveAny(t, 100); err != nil {
			return err
		}
		if t.p.dead {
			return &Error{"prepare " + t.p.name(), "it ended at once", nil}
		}
		if !t.pending {
			continue
		}
		if t.req.data.nr == bootNr {
			return nil
		}
		t.pending = false
		s.pass(t)
	}
	return &Error{"prepare " + t.p.name(), "it did not come back within 10 s", nil}
}

// patchVdso writes our code over the process's copy of the vDSO (a private copy: the write is forced past the page's
// protection, which Linux 6.12 and later may be configured to refuse). It returns where the mapping code begins.
func (s *Supervisor) patchVdso(mem *os.File, base uint64, fd int32, resume uint64) (uint64, error) {
	if base == 0 {
		return 0, errors.New("virtual: the process has no vDSO")
	}
	img := make([]byte, 4*4096)
	n, _ := mem.ReadAt(img, int64(base))
	if n == 0 { // fewer pages are mapped
		for size := len(img) - 4096; size > 0 && n == 0; size -= 4096 {
			n, _ = mem.ReadAt(img[:size], int64(base))
		}
	}
	program, at := vdsoProgram(time32(s.tick), s.monoZero, fd, resume)
	patches, entry, err := vdsoPatches(img[:n], program, at)
	if err != nil {
		return 0, &Error{"patch the vDSO", "it is not as expected", err}
	}
	for off, code := range patches {
		if _, err := mem.WriteAt(code, int64(base+off)); err != nil {
			return 0, &Error{"patch the vDSO", "the kernel refuses forced writes through /proc/PID/mem (proc_mem.force_override)", err}
		}
	}
	return base + entry, nil
}

// auxv reads where the vDSO and the 16 random bytes of a new program are.
func auxv(tid int) (vdso, random uint64, err error) {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/auxv", tid))
	if err != nil {
		return 0, 0, err
	}
	for ; len(b) >= 16; b = b[16:] {
		switch v := binary.LittleEndian.Uint64(b[8:]); binary.LittleEndian.Uint64(b) {
		case atRandom:
			random = v
		case atSysinfoEhdr:
			vdso = v
		}
	}
	if random == 0 {
		return 0, 0, errors.New("no AT_RANDOM")
	}
	return vdso, random, nil
}

// textOfGo is the code's address range if path is a static Go program at fixed addresses. Those use descriptors that
// never block, so that their reads and writes need not stop. Anything else, or in doubt, has none.
func textOfGo(path string) goText {
	f, err := elf.Open(path)
	if err != nil {
		return goText{}
	}
	defer f.Close()
	if f.Type != elf.ET_EXEC || f.Machine != elf.EM_X86_64 || f.Section(".note.go.buildid") == nil {
		return goText{}
	}
	var text goText
	for _, p := range f.Progs {
		if p.Type == elf.PT_INTERP {
			return goText{}
		}
		if p.Type == elf.PT_LOAD && p.Flags&elf.PF_X != 0 && p.Vaddr+p.Memsz < 1<<32 {
			text = goText{uint32(p.Vaddr), uint32(p.Vaddr + p.Memsz)}
		}
	}
	return text
}
