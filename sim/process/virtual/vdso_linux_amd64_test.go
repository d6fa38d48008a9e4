package virtual

import (
	"bytes"
	"encoding/binary"
	"os"
	"testing"
)

// ownVdso is the vDSO of this process.
func ownVdso(t *testing.T) []byte {
	t.Helper()
	base, _, err := auxv(os.Getpid())
	if err != nil || base == 0 {
		t.Fatal(base, err)
	}
	mem, err := os.Open("/proc/self/mem")
	if err != nil {
		t.Fatal(err)
	}
	defer mem.Close()
	img := make([]byte, 2*4096)
	n, _ := mem.ReadAt(img, int64(base))
	return img[:max(n, 4096)]
}

func TestVdsoPatches(t *testing.T) {
	img := ownVdso(t)
	program, at := vdsoProgram(200, 0x1122334455667788, 7, 0x401234)
	for _, left := range [][]byte{bytes.Repeat([]byte{0x22}, 4), bytes.Repeat([]byte{0x33}, 8), bytes.Repeat([]byte{0x44}, 4), bytes.Repeat([]byte{0x55}, 8)} {
		if bytes.Contains(program, left) {
			t.Errorf("the program still has % x", left)
		}
	}
	patches, boot, err := vdsoPatches(img, program, at)
	if err != nil {
		t.Fatal(err)
	}
	out := bytes.Clone(img)
	for off, code := range patches {
		copy(out[off:], code)
	}
	fs, err := vdsoFuncs(out)
	if err != nil {
		t.Fatal(err)
	}
	for name, f := range fs {
		if _, ok := at[name]; !ok {
			continue
		}
		// Follow the jump, if there is one, to the routine's code.
		off := f.off
		if out[off] == 0xe9 {
			off += 5 + uint64(int64(int32(binary.LittleEndian.Uint32(out[off+1:]))))
		}
		want := program[at[name]:][:8]
		if !bytes.Equal(out[off:off+8], want) {
			t.Errorf("%s leads to % x, want % x", name, out[off:off+8], want)
		}
	}
	if !bytes.Equal(out[boot:boot+8], program[at["boot"]:][:8]) {
		t.Error("the mapping code is not where it is said to be")
	}
}

func TestVdsoFuncsOnGarbage(t *testing.T) {
	for _, img := range [][]byte{nil, make([]byte, 64), bytes.Repeat([]byte{0xff}, 4096), ownVdso(t)[:1000]} {
		if fs, err := vdsoFuncs(img); err == nil {
			t.Errorf("%d bytes of garbage have functions: %v", len(img), fs)
		}
	}
}
