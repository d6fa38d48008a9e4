package symbols

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
)

// Words of runtime.moduledata, which have kept their places from Go 1.20 on.
const (
	moduleFtabLen = 17
	moduleMinPC   = 20
	moduleMaxPC   = 21
	moduleText    = 22
	moduleEtext   = 23
	moduleGofunc  = 40
	moduleWords   = 41
)

// readModule finds the runtime's module data, which alone says where the code begins and where the
// inlining trees lie: its first word points to the function table, which lies at TABLE.
func (t *pclntab) readModule(f *elf.File, table uint64) error {
	pointers := relocations(f)
	for _, data := range moduleCandidates(f) {
		relocate(f, data, pointers)
		if m := t.findModule(data.bytes, table); m != nil {
			t.text = m.u64(8 * moduleText)
			t.inline = bytesFrom(f, m.u64(8*moduleGofunc))
			if t.inline == nil {
				return fmt.Errorf("the inlining trees at %#x lie in no segment of the file", m.u64(8*moduleGofunc))
			}
			return nil
		}
	}
	return errors.New("no module data points to the function table: linked by a Go that this program does not know")
}

// candidate is a piece of the file that may hold the module data.
type candidate struct {
	addr  uint64
	bytes bytesAt
}

// moduleCandidates are .go.module (Go 1.26 and later), else all that is writable once loaded.
func moduleCandidates(f *elf.File) []candidate {
	var all []candidate
	for _, s := range f.Sections {
		if s.Type != elf.SHT_PROGBITS || s.Name != ".go.module" && s.Flags&elf.SHF_WRITE == 0 {
			continue
		}
		if b, err := s.Data(); err == nil {
			all = append(all, candidate{s.Addr, b})
		}
	}
	if len(all) > 0 {
		return all
	}
	for _, p := range f.Progs { // no section headers
		if p.Type != elf.PT_LOAD || p.Flags&elf.PF_X != 0 {
			continue
		}
		if b, err := io.ReadAll(p.Open()); err == nil {
			all = append(all, candidate{p.Vaddr, b})
		}
	}
	return all
}

// findModule looks for the module data in DATA.
func (t *pclntab) findModule(data bytesAt, table uint64) bytesAt {
	var first [8]byte
	binary.LittleEndian.PutUint64(first[:], table)
	for i := 0; ; i++ {
		j := bytes.Index(data[i:], first[:])
		if j < 0 {
			return nil
		}
		i += j
		m := data[i:]
		word := func(k uint64) uint64 { return m.u64(8 * k) }
		if i%8 == 0 && len(m) >= 8*moduleWords &&
			word(moduleFtabLen) == uint64(t.nfunc)+1 &&
			word(moduleMinPC) >= word(moduleText) && word(moduleMaxPC) <= word(moduleEtext)+1 {
			return m
		}
	}
}

// relocate writes into DATA the pointers that a position-independent binary leaves to its loader, whose table is RELA.
func relocate(f *elf.File, data candidate, rela bytesAt) {
	var relative uint64
	switch f.Machine {
	case elf.EM_X86_64:
		relative = uint64(elf.R_X86_64_RELATIVE)
	case elf.EM_AARCH64:
		relative = uint64(elf.R_AARCH64_RELATIVE)
	default:
		return
	}
	const entry = 24 // Elf64_Rela: offset, info, addend
	for ; len(rela) >= entry; rela = rela[entry:] {
		off := rela.u64(0) - data.addr
		if rela.u64(8)&0xffffffff == relative && off < uint64(len(data.bytes)) && len(data.bytes[off:]) >= 8 {
			binary.LittleEndian.PutUint64(data.bytes[off:], rela.u64(16))
		}
	}
}

// relocations is the table that the loader works through, which the dynamic segment leads to whether or not there are
// section headers.
func relocations(f *elf.File) bytesAt {
	var addr, size uint64
	for _, p := range f.Progs {
		if p.Type != elf.PT_DYNAMIC {
			continue
		}
		b, err := io.ReadAll(p.Open())
		if err != nil {
			return nil
		}
		const entry = 16 // Elf64_Dyn: tag, value
		for dyn := bytesAt(b); len(dyn) >= entry; dyn = dyn[entry:] {
			switch elf.DynTag(dyn.u64(0)) {
			case elf.DT_RELA:
				addr = dyn.u64(8)
			case elf.DT_RELASZ:
				size = dyn.u64(8)
			}
		}
	}
	for _, p := range f.Progs {
		if p.Type == elf.PT_LOAD && size > 0 && addr >= p.Vaddr && addr-p.Vaddr < p.Filesz {
			b, _ := io.ReadAll(io.NewSectionReader(p, int64(addr-p.Vaddr), int64(min(size, p.Filesz)))) // as much as there is
			return b
		}
	}
	return nil
}

// bytesFrom is what the file holds from the linked address ADDR to the end of its section or segment.
func bytesFrom(f *elf.File, addr uint64) bytesAt {
	for _, s := range f.Sections {
		if s.Type == elf.SHT_PROGBITS && s.Flags&elf.SHF_ALLOC != 0 && addr >= s.Addr && addr-s.Addr < s.Size {
			if b, err := s.Data(); err == nil {
				return bytesAt(b).at(addr - s.Addr)
			}
		}
	}
	for _, p := range f.Progs {
		if p.Type == elf.PT_LOAD && addr >= p.Vaddr && addr-p.Vaddr < p.Filesz {
			if b, err := io.ReadAll(p.Open()); err == nil {
				return bytesAt(b).at(addr - p.Vaddr)
			}
		}
	}
	return nil
}
