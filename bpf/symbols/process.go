package symbols

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/opreplay/opreplay/traces"
)

// Process names the code of a running process. It is used by one goroutine.
type Process struct {
	// Binary is the program that the process runs; nil where that is none of Go's.
	Binary *Binary
	// Unresolved counts the addresses that no Go function of the program was found for: C code, or a broken stack. The
	// vDSO's are none of them.
	Unresolved int

	maps  []mapping
	pid   int
	cache map[uint64][]traces.Frame
}

// mapping is one executable line of /proc/PID/maps. LINK is what to subtract from an address in it to
// get the address as linked, where the file mapped is the program itself.
type mapping struct {
	from, to, off uint64
	file          string
	program       bool
	link          uint64
}

// OpenProcess reads the tables of the program that the process PID runs, and where it is loaded. For
// another user's process that takes CAP_SYS_PTRACE.
func OpenProcess(pid int) (*Process, error) {
	dir := filepath.Join("/proc", strconv.Itoa(pid))
	b, err := Open(filepath.Join(dir, "exe"))
	if err != nil {
		return nil, err
	}
	return b.Process(pid)
}

// Process is the process PID, which runs the program B.
func (b *Binary) Process(pid int) (*Process, error) {
	p := &Process{Binary: b, pid: pid, cache: map[uint64][]traces.Frame{}}
	if err := p.readMaps(); err != nil {
		return nil, err
	}
	return p, nil
}

// Foreign is the process PID, which runs a program that is none of Go's: its frames are named by file and offset.
func Foreign(pid int) (*Process, error) { return (*Binary)(nil).Process(pid) }

func (p *Process) readMaps() error {
	dir := filepath.Join("/proc", strconv.Itoa(p.pid))
	exe, err := os.Readlink(filepath.Join(dir, "exe"))
	if err != nil {
		return err
	}
	f, err := os.Open(filepath.Join(dir, "maps"))
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }()
	p.maps, err = parseMaps(f, exe, p.Binary)
	return err
}

// parseMaps reads the executable mappings of a process that runs the program B at the path EXE
// (proc_pid_maps(5)).
func parseMaps(r io.Reader, exe string, b *Binary) ([]mapping, error) {
	var maps []mapping
	lines := bufio.NewScanner(r)
	for lines.Scan() {
		var m mapping
		var perms, dev string
		var inode uint64
		if _, err := fmt.Sscanf(lines.Text(), "%x-%x %s %x %s %d", &m.from, &m.to, &perms, &m.off, &dev, &inode); err != nil {
			return nil, fmt.Errorf("line %q of the memory map: %w", lines.Text(), err)
		}
		if !strings.Contains(perms, "x") {
			continue
		}
		if fields := strings.SplitN(lines.Text(), " ", 6); len(fields) == 6 {
			m.file = strings.TrimLeft(fields[5], " ")
		}
		if b != nil && m.file == exe {
			if addr, ok := b.Address(m.off); ok {
				m.program, m.link = true, m.from-addr
			}
		}
		maps = append(maps, m)
	}
	return maps, lines.Err()
}

// Linked is the address as linked of the address PC in the process; not ok outside its program.
func (p *Process) Linked(pc uint64) (addr uint64, ok bool) {
	m := p.mapping(pc)
	if m == nil || !m.program {
		return 0, false
	}
	return pc - m.link, true
}

func (p *Process) mapping(pc uint64) *mapping {
	for i := range p.maps {
		if m := &p.maps[i]; pc >= m.from && pc < m.to {
			return m
		}
	}
	return nil
}

// vdso is the mapping of the kernel's code in every process, which reads the clock without a system call (vdso(7)). Its
// frames have this name: it is no file, and where in it a function lies is the kernel's own.
const vdso = "[vdso]"

// Frames names the functions at PC as Binary.Frames does, PC being an address in the process. The vDSO's have its name.
// What else is no Go code of the program becomes one frame named after the file mapped there, and is counted.
func (p *Process) Frames(pc uint64) []traces.Frame {
	frames, known := p.cache[pc]
	if !known {
		if addr, ok := p.Linked(pc); ok {
			frames = p.Binary.Frames(addr)
		} else if m := p.mapping(pc); m != nil && m.file == vdso {
			frames = []traces.Frame{{Function: vdso}}
		}
		p.cache[pc] = frames
	}
	if len(frames) > 0 {
		return frames
	}
	if p.Binary != nil {
		p.Unresolved++
	}
	return []traces.Frame{p.foreign(pc)}
}

// foreign is the frame of an address outside of Go code: a file and an offset in it, which stay the
// same from run to run.
func (p *Process) foreign(pc uint64) traces.Frame {
	m := p.mapping(pc)
	if m == nil || m.file == "" {
		return traces.Frame{Function: "?"}
	}
	return traces.Frame{Function: fmt.Sprintf("%s+%#x", filepath.Base(m.file), pc-m.from+m.off), File: m.file}
}

// Stack names a whole stack, leaf first. PCS are as the kernel gives them by frame pointers: the address
// that runs, then return addresses, each of which stands behind its call. SP are the two words at the
// stack pointer, by which a caller that frame pointers jump over is found again.
func (p *Process) Stack(pcs []uint64, sp [2]uint64) []traces.Frame {
	if len(pcs) == 0 {
		return nil
	}
	out := append([]traces.Frame(nil), p.Frames(pcs[0])...)
	rest := pcs[1:]
	if caller := p.leafCaller(pcs[0], sp); caller != 0 && (len(rest) == 0 || rest[0] != caller) {
		out = append(out, p.Frames(caller-1)...)
	}
	for _, pc := range rest {
		out = append(out, p.Frames(pc-1)...)
	}
	return out
}

// leafCaller finds the return address of the function that runs at IP, given the two words at its stack
// pointer. Go's functions set up their frame pointer some instructions after their entry, and small
// leaves never do; until then a walk by frame pointers jumps over the caller. The depth of the stack at
// IP says where the return address is: 0 where it is not missed, or can't be told.
func (p *Process) leafCaller(ip uint64, sp [2]uint64) uint64 {
	addr, ok := p.Linked(ip)
	if !ok {
		return 0
	}
	fn, ok := p.Binary.Find(addr)
	if !ok {
		return 0
	}
	var caller uint64
	switch delta, ok := fn.SPDelta(addr); {
	case ok && delta == 0:
		caller = sp[0]
	case ok && delta == 8: // the frame pointer has been pushed, and does not point there yet
		caller = sp[1]
	}
	if to, ok := p.Linked(caller); ok {
		if _, ok := p.Binary.Find(to); ok {
			return caller
		}
	}
	return 0
}
