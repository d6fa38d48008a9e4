package symbols

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// Section headers are no part of what runs: tools strip them too. Nor do all linkers write the pointers of a
// position-independent program into it that its loader will write again.
func TestWithoutSectionHeaders(t *testing.T) {
	for _, form := range forms[1:] {
		t.Run(form.name, func(t *testing.T) {
			data, err := os.ReadFile(build(t, form.flags...))
			if err != nil {
				t.Fatal(err)
			}
			whole, err := Read(bytes.NewReader(data))
			if err != nil {
				t.Fatal(err)
			}
			bare := slices.Clone(data)
			if n := clearPointers(t, bare); (n > 0) != whole.PIE {
				t.Errorf("%d pointers are left to the loader", n)
			}
			// Elf64_Ehdr: e_shoff at 40, e_shentsize, e_shnum and e_shstrndx at 58
			binary.LittleEndian.PutUint64(bare[40:], 0)
			clear(bare[58:64])
			b, err := Read(bytes.NewReader(bare))
			if err != nil {
				t.Fatal(err)
			}
			if b.NumFuncs() != whole.NumFuncs() {
				t.Fatalf("%d functions, with section headers %d", b.NumFuncs(), whole.NumFuncs())
			}
			for i := 0; i < b.NumFuncs(); i += 17 {
				fn := whole.Func(i)
				if got, want := b.Frames(fn.Entry+4), whole.Frames(fn.Entry+4); !slices.Equal(got, want) {
					t.Fatalf("%#x: %v, with section headers %v", fn.Entry+4, got, want)
				}
			}
		})
	}
}

// clearPointers takes out of a binary what its loader will write, and says how many there were.
func clearPointers(t *testing.T, data []byte) (n int) {
	t.Helper()
	f, err := elf.NewFile(bytes.NewReader(data))
	if err != nil {
		t.Fatal(err)
	}
	s := f.Section(".rela")
	if s == nil {
		return 0
	}
	table, err := s.Data()
	if err != nil {
		t.Fatal(err)
	}
	for ; len(table) >= 24; table = table[24:] {
		at := binary.LittleEndian.Uint64(table)
		for _, p := range f.Progs {
			if p.Type == elf.PT_LOAD && at >= p.Vaddr && at-p.Vaddr < p.Filesz {
				clear(data[at-p.Vaddr+p.Off:][:8])
				n++
			}
		}
	}
	return n
}

func TestWhatIsNoGoBinary(t *testing.T) {
	text := filepath.Join(t.TempDir(), "text")
	if err := os.WriteFile(text, []byte("#!/bin/sh\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(text); err == nil || !strings.Contains(err.Error(), text+": not an ELF binary") {
		t.Errorf("a script: %v", err)
	}
	const shell = "/bin/sh"
	if _, err := Open(shell); !errors.Is(err, ErrNotGo) {
		t.Errorf("%s: %v", shell, err)
	}
}

// Whatever bytes of the tables are damaged, reading ends, with frames or without.
func FuzzDamage(f *testing.F) {
	data, err := os.ReadFile(build(f, "-ldflags=-s -w"))
	if err != nil {
		f.Fatal(err)
	}
	tab := indexHeader(data)
	if tab < 0 {
		f.Fatal("the guest has no function table")
	}
	f.Add(uint32(0), uint64(0), uint32(0))
	f.Add(uint32(8), ^uint64(0), uint32(1))         // more functions than there are
	f.Add(uint32(8+8*3), ^uint64(0)>>1, uint32(2))  // names beyond the end
	f.Add(uint32(8+8*7), uint64(1<<40), uint32(3))  // functions beyond the end
	f.Add(uint32(1<<18), ^uint64(0), uint32(70000)) // somewhere within
	f.Fuzz(func(_ *testing.T, at uint32, value uint64, pick uint32) {
		damaged := slices.Clone(data)
		if off := tab + int(at); off+8 <= len(damaged) {
			binary.LittleEndian.PutUint64(damaged[off:], value)
		}
		b, err := Read(bytes.NewReader(damaged))
		if err != nil {
			return
		}
		for i := range 64 {
			fn := b.Func((int(pick) + i*997) % b.NumFuncs())
			for pc := fn.Entry; pc < fn.Entry+64; pc += 5 {
				b.Frames(pc)
				fn.SPDelta(pc)
			}
		}
	})
}
