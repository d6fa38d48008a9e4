package symbols

import (
	"strings"

	"github.com/opreplay/opreplay/traces"
)

// maxInline bounds the depth of inlined calls, so that a damaged tree with a cycle ends.
const maxInline = 100

// noOffset stands for an absent entry in the tables of files and of function data.
const noOffset = ^uint32(0)

// frames expands PC, which lies in f.
func (f Func) frames(pc uint64) []traces.Frame {
	var out []traces.Frame
	tree, index := f.inlineTree()
	for len(tree) > 0 && len(out) < maxInline {
		i, ok := f.value(index, pc)
		if !ok || i < 0 {
			break
		}
		call := tree.at(inlineCallBytes * uint64(i))
		if len(call) < inlineCallBytes {
			break
		}
		file, line := f.line(pc)
		out = append(out, traces.Frame{Function: Canonical(f.t.names.str(uint64(call.u32(4)))), File: file, Line: line, Inlined: true})
		pc = f.Entry + uint64(call.u32(8)) // the instruction of f that stands for the call
	}
	file, line := f.line(pc)
	return append(out, traces.Frame{Function: Canonical(f.Name()), File: file, Line: line})
}

// inlineTree is the list of calls that were inlined into f, and the program that says which of them an
// instruction belongs to.
func (f Func) inlineTree() (tree bytesAt, index uint64) {
	npcdata, nfuncdata := uint64(f.desc.u32(funcNPCData)), uint64(f.desc.u8(funcNFunc))
	if npcdata <= pcdataInlTreeIndex || nfuncdata <= funcdataInlTree {
		return nil, 0
	}
	off := f.desc.u32(funcTail + 4*(npcdata+funcdataInlTree))
	if off == noOffset {
		return nil, 0
	}
	return f.t.inline.at(uint64(off)), uint64(f.desc.u32(funcTail + 4*pcdataInlTreeIndex))
}

// line is the source line of the instruction at PC; "" and 0 where the tables do not say.
func (f Func) line(pc uint64) (file string, line int32) {
	line, ok := f.value(uint64(f.desc.u32(funcPCLine)), pc)
	if !ok || line < 0 {
		return "", 0
	}
	i, ok := f.value(uint64(f.desc.u32(funcPCFile)), pc)
	if !ok || i < 0 {
		return "", line
	}
	off := f.t.cutab.at(4 * (uint64(f.desc.u32(funcCUOff)) + uint64(i)))
	if len(off) < 4 || off.u32(0) == noOffset {
		return "", line
	}
	return f.t.files.str(uint64(off.u32(0))), line
}

// Canonical shortens the type arguments of a generic function to [...], as Go prints them in panics:
// what the linker writes there differs with the compiler's choices.
func Canonical(name string) string {
	open, shut := strings.IndexByte(name, '['), strings.LastIndexByte(name, ']')
	if open < 0 || shut < open {
		return name
	}
	return name[:open] + "[...]" + name[shut+1:]
}
