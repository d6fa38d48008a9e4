package symbols

import (
	"bytes"
	"debug/buildinfo"
	"debug/elf"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/opreplay/opreplay/traces"
)

// ErrNotGo is wrapped by the error of Open for a binary without Go's function table.
var ErrNotGo = errors.New("no Go function table")

// Binary is the symbol tables of one Go binary. It holds them in memory and needs the file no more.
// It may be used by several goroutines.
type Binary struct {
	// GoVersion is the toolchain's version as the binary states it, such as "go1.26.0"; "" unknown.
	GoVersion string
	// Modules is the versions of the modules linked into it by their path, as the binary states them.
	Modules map[string]string
	// PIE says that the binary may be loaded elsewhere than at the addresses it was linked for.
	PIE bool

	segments []segment
	tab      pclntab
}

// segment is what of the file is mapped where, by the program header of a PT_LOAD.
type segment struct {
	addr, off, filesz uint64
	exec              bool
}

// Open reads the tables of the ELF binary at PATH. The error names the file and what is wrong with it.
func Open(path string) (*Binary, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }()
	b, err := Read(f)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return b, nil
}

// Read is Open for a binary that is no file.
func Read(r io.ReaderAt) (b *Binary, err error) {
	f, err := elf.NewFile(r)
	if err != nil {
		return nil, fmt.Errorf("not an ELF binary: %w", err)
	}
	if f.Class != elf.ELFCLASS64 || f.ByteOrder.String() != "LittleEndian" {
		return nil, fmt.Errorf("%s, %s: only 64-bit little-endian binaries can be read", f.Class, f.ByteOrder)
	}
	b = &Binary{PIE: f.Type == elf.ET_DYN, Modules: map[string]string{}}
	for _, p := range f.Progs {
		if p.Type == elf.PT_LOAD {
			b.segments = append(b.segments, segment{p.Vaddr, p.Off, p.Filesz, p.Flags&elf.PF_X != 0})
		}
	}
	if info, err := buildinfo.Read(r); err == nil {
		b.GoVersion = info.GoVersion
		for _, m := range info.Deps {
			b.Modules[m.Path] = m.Version
			if m.Replace != nil {
				b.Modules[m.Path] = m.Replace.Version
			}
		}
	}
	addr, data, err := findTable(f)
	if err != nil {
		return nil, err
	}
	if err := b.tab.readHeader(data); err != nil {
		return nil, err
	}
	if err := b.tab.readModule(f, addr); err != nil {
		return nil, err
	}
	return b, nil
}

// findTable finds the function table: by its section, or in a binary without section headers by its
// first bytes.
func findTable(f *elf.File) (addr uint64, data []byte, err error) {
	for _, name := range []string{".gopclntab", ".data.rel.ro.gopclntab"} {
		if s := f.Section(name); s != nil {
			data, err := s.Data()
			if err != nil {
				return 0, nil, fmt.Errorf("section %s: %w", name, err)
			}
			return s.Addr, data, nil
		}
	}
	for _, p := range f.Progs {
		if p.Type != elf.PT_LOAD {
			continue
		}
		data, err := io.ReadAll(p.Open())
		if err != nil {
			return 0, nil, fmt.Errorf("the segment at %#x: %w", p.Vaddr, err)
		}
		if i := indexHeader(data); i >= 0 {
			return p.Vaddr + uint64(i), data[i:], nil
		}
	}
	return 0, nil, ErrNotGo
}

// indexHeader looks for a function table's header, which lies at a multiple of eight.
func indexHeader(data []byte) int {
	for i := 0; ; {
		j := bytes.Index(data[i:], []byte{0xf1, 0xff, 0xff, 0xff, 0, 0})
		if j < 0 {
			return -1
		}
		i += j
		if i%8 == 0 && len(data) > i+7 && data[i+7] == 8 {
			return i
		}
		i++
	}
}

// Frames names the functions that PC lies in, leaf first: those that the compiler inlined there, then
// the one they were inlined into. PC is an address as linked; for a return address pass the address
// less one, since the call is what one wants to see. It is nil where no Go function lies.
func (b *Binary) Frames(pc uint64) []traces.Frame {
	fn, ok := b.Find(pc)
	if !ok {
		return nil
	}
	return fn.frames(pc)
}

// FileOffset is where in the file the instruction at the linked address ADDR lies, which is what the
// kernel wants to know of a uprobe.
func (b *Binary) FileOffset(addr uint64) (off uint64, ok bool) {
	for _, s := range b.segments {
		if s.exec && addr >= s.addr && addr-s.addr < s.filesz {
			return addr - s.addr + s.off, true
		}
	}
	return 0, false
}

// Address is the linked address of the code at offset OFF of the file.
func (b *Binary) Address(off uint64) (addr uint64, ok bool) {
	for _, s := range b.segments {
		if s.exec && off >= s.off && off-s.off < s.filesz {
			return off - s.off + s.addr, true
		}
	}
	return 0, false
}
