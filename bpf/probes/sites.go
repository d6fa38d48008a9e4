package probes

import (
	"fmt"
	"io"

	"golang.org/x/arch/x86/x86asm"

	"github.com/opreplay/opreplay/bpf/symbols"
)

// site is one instruction that is watched.
type site struct {
	target
	off     uint64 // in the file
	strings int    // how many of them a pointer points to
}

// prologue is how far into a function its frame pointer's PUSH lies at most: behind the check of the stack.
const prologue = 48

// sites finds the instructions of a binary, whose file is R, to watch.
func sites(b *symbols.Binary, r io.ReaderAt) ([]site, error) {
	functions := find(b)
	pairs := false // untyped queues of a program with a controller hold its requests
	for _, f := range functions {
		pairs = pairs || f.target.kind == Start && f.target.named
	}
	var all []site
	for _, f := range functions {
		offs, err := instructions(b, r, f)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", f.fn.Name(), err)
		}
		n := 2
		if f.target.item == "string" || f.target.pointer != none && f.target.item != "struct" && !pairs {
			n = 1
		}
		for _, off := range offs {
			all = append(all, site{f.target, off, n})
		}
	}
	return all, nil
}

// instructions gives the offsets in the file of the instructions of F to watch: one at its entry, behind the
// point at which it may begin anew; or each of its returns.
func instructions(b *symbols.Binary, r io.ReaderAt, f found) ([]uint64, error) {
	start, ok := b.FileOffset(f.fn.Entry)
	if !ok {
		return nil, fmt.Errorf("the code at %#x lies in no segment", f.fn.Entry)
	}
	const longest = 1 << 20 // bytes of a function, against tables that lie
	code := make([]byte, min(f.fn.End-f.fn.Entry, longest))
	if _, err := r.ReadAt(code, int64(start)); err != nil {
		return nil, err
	}
	var offs []uint64
	for i := 0; i < len(code); {
		in, err := x86asm.Decode(code[i:], 64)
		if err != nil {
			return nil, fmt.Errorf("the instruction at +%#x: %w", i, err)
		}
		switch {
		case f.target.at == entry && i < prologue && in.Op == x86asm.PUSH && in.Args[0] == x86asm.RBP:
			return []uint64{start + uint64(i)}, nil
		case f.target.at == entry && i >= prologue:
			return []uint64{start}, nil // a leaf without a frame never begins anew
		case f.target.at == returns && in.Op == x86asm.RET:
			offs = append(offs, start+uint64(i))
		}
		i += in.Len
	}
	if f.target.at == entry {
		return []uint64{start}, nil
	}
	return offs, nil
}
