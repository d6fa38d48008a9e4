package symbols

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"sort"
)

// magic begins the function table of Go 1.20 and later (debug/gosym: go120magic).
const magic = 0xfffffff1

// pclntab is the function table: header words, then the parts that its header points to, all in the
// layout of the runtime's pcHeader.
type pclntab struct {
	text    uint64 // linked address that functions' offsets count from
	nfunc   int
	quantum uint64 // length of an instruction that programs' steps count in: 1 on amd64, 4 on arm64

	names, cutab, files, pctab, funcs bytesAt
	inline                            bytesAt // what the module's gofunc points to
}

// bytesAt is a part of a binary that is read only where it is.
type bytesAt []byte

// at gives the bytes from OFF on, none beyond the end.
func (b bytesAt) at(off uint64) bytesAt {
	if off >= uint64(len(b)) {
		return nil
	}
	return b[off:]
}

func (b bytesAt) u8(off uint64) byte {
	if s := b.at(off); len(s) > 0 {
		return s[0]
	}
	return 0
}

func (b bytesAt) u32(off uint64) uint32 {
	if s := b.at(off); len(s) >= 4 {
		return binary.LittleEndian.Uint32(s)
	}
	return 0
}

func (b bytesAt) u64(off uint64) uint64 {
	if s := b.at(off); len(s) >= 8 {
		return binary.LittleEndian.Uint64(s)
	}
	return 0
}

// str is the string at OFF that ends with a zero byte.
func (b bytesAt) str(off uint64) string {
	s := b.at(off)
	if i := bytes.IndexByte(s, 0); i >= 0 {
		return string(s[:i])
	}
	return ""
}

func (t *pclntab) readHeader(data bytesAt) error {
	if len(data) < 8+8*8 {
		return fmt.Errorf("%w: the function table has %d bytes", ErrNotGo, len(data))
	}
	if m := data.u32(0); m != magic {
		return fmt.Errorf("the function table begins with %#x, not %#x: built by a Go before 1.20, or by one newer than this program knows", m, uint32(magic))
	}
	if p := data[7]; p != 8 {
		return fmt.Errorf("the function table has pointers of %d bytes, not 8", p)
	}
	t.quantum = uint64(data[6])
	word := func(i uint64) uint64 { return data.u64(8 + 8*i) }
	// words of runtime.pcHeader: nfunc, nfiles, textStart (unused since 1.26), then the offsets of the parts
	t.nfunc = int(word(0))
	t.names, t.cutab, t.files, t.pctab, t.funcs = data.at(word(3)), data.at(word(4)), data.at(word(5)), data.at(word(6)), data.at(word(7))
	if n := len(t.funcs) / 8; t.nfunc <= 0 || t.nfunc >= n {
		return fmt.Errorf("the function table claims %d functions and has room for %d", t.nfunc, n)
	}
	return nil
}

// entry is the I-th line of the sorted list of functions: where its code begins, counted from text,
// and where in funcs it is described. Line nfunc holds only the end of the last one.
func (t *pclntab) entry(i int) (code, desc uint64) {
	return uint64(t.funcs.u32(8 * uint64(i))), uint64(t.funcs.u32(8*uint64(i) + 4))
}

// Func is one function of a binary. Entry and End are addresses as linked.
type Func struct {
	Entry, End uint64

	t    *pclntab
	desc bytesAt // runtime._func
}

// Offsets in runtime._func.
const (
	funcNameOff = 4
	funcPCSP    = 16
	funcPCFile  = 20
	funcPCLine  = 24
	funcNPCData = 28
	funcCUOff   = 32
	funcID      = 40
	funcNFunc   = 43
	funcTail    = 44 // npcdata words, then nfuncdata words

	pcdataInlTreeIndex = 2
	funcdataInlTree    = 3
	inlineCallBytes    = 16 // runtime.inlinedCall: funcID, three bytes, nameOff, parentPc, startLine
)

// wrapperID is abi.FuncIDWrapper, by which the compiler marks functions that no one wrote.
const wrapperID = 23

// NumFuncs is how many functions the binary has.
func (b *Binary) NumFuncs() int { return b.tab.nfunc }

// Func is the I-th function in the order of addresses.
func (b *Binary) Func(i int) Func {
	t := &b.tab
	code, desc := t.entry(i)
	end, _ := t.entry(i + 1)
	return Func{t.text + code, t.text + end, t, t.funcs.at(desc)}
}

// Find is the function that the linked address PC lies in.
func (b *Binary) Find(pc uint64) (Func, bool) {
	t := &b.tab
	end, _ := t.entry(t.nfunc)
	if pc < t.text || pc-t.text >= end {
		return Func{}, false
	}
	i := sort.Search(t.nfunc, func(i int) bool {
		code, _ := t.entry(i)
		return code > pc-t.text
	}) - 1
	if i < 0 {
		return Func{}, false
	}
	return b.Func(i), true
}

// Name is the function's full name, with type arguments as the linker wrote them: see Canonical.
func (f Func) Name() string { return f.t.names.str(uint64(f.desc.u32(funcNameOff))) }

// Wrapper says that the compiler made this function, to adapt another one.
func (f Func) Wrapper() bool { return f.desc.u8(funcID) == wrapperID }

// SPDelta is how many bytes below the return address the stack pointer lies at PC: 0 at the function's
// first instruction, where the return address is what the stack pointer points to.
func (f Func) SPDelta(pc uint64) (delta int32, ok bool) {
	return f.value(uint64(f.desc.u32(funcPCSP)), pc)
}

// value runs one of the function's programs, a list of (value step, pc step) as varints, to PC.
func (f Func) value(program, pc uint64) (v int32, ok bool) {
	if program == 0 {
		return 0, false
	}
	code := f.t.pctab.at(program)
	v, at := -1, f.Entry
	for first := true; ; first = false {
		step, n := binary.Uvarint(code)
		if n <= 0 || step == 0 && !first {
			return 0, false
		}
		code = code[n:]
		dist, n := binary.Uvarint(code)
		if n <= 0 {
			return 0, false
		}
		code = code[n:]
		v += int32(uint32(step)>>1) ^ -int32(uint32(step)&1)
		if at += dist * f.t.quantum; pc < at {
			return v, true
		}
	}
}
