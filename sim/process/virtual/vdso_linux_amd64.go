package virtual

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
)

// The vDSO is the kernel's code in every process: clocks without a system call, so without a trap. Its functions are
// replaced, in this process's private copy of the page, by jumps to the code below. The clock is one 64-bit cell
// (virtual nanoseconds since 1970) in a page that the supervisor shares with all processes, mapped at cellAddr.
const (
	cellAddr = 0x1_0000_0000
	// bootNr is no system call of Linux; the mapping code makes it to say that it is done.
	bootNr = 0x6f70
)

// vdsoCode is the replacement, one routine a key of vdsoOrder. In the hex text, 22222222 stands for the tick,
// 3333333333333333 for what is subtracted to make the monotonic clock, 44444444 for the descriptor of the cell's
// page and 5555555555555555 for the address to go on at.
var vdsoCode = map[string]string{
	"clock_gettime": `
		49b90000000001000000 ; movabs r9, 0x100000000
		b922222222           ; mov ecx, tick
		4189c8               ; mov r8d, ecx
		f0490fc109           ; lock xadd [r9], rcx
		4c01c1               ; add rcx, r8
		85ff 7417            ; test edi, edi; je 1f        CLOCK_REALTIME
		83ff05 7412          ; cmp edi, 5; je 1f           CLOCK_REALTIME_COARSE
		83ff0b 740d          ; cmp edi, 11; je 1f          CLOCK_TAI
		48b83333333333333333 ; movabs rax, monotonic
		4829c1               ; sub rcx, rax
		4889c8               ; 1: mov rax, rcx
		31d2 b900ca9a3b      ; xor edx, edx; mov ecx, 1e9
		48f7f1               ; div rcx
		488906 48895608      ; mov [rsi], rax; mov [rsi+8], rdx
		31c0 c3              ; xor eax, eax; ret`,
	"gettimeofday": `
		4885ff 7437          ; test rdi, rdi; je 2f
		49b90000000001000000 ; movabs r9, 0x100000000
		b922222222           ; mov ecx, tick
		4189c8               ; mov r8d, ecx
		f0490fc109           ; lock xadd [r9], rcx
		4a8d0401             ; lea rax, [rcx+r8]
		31d2 b900ca9a3b      ; xor edx, edx; mov ecx, 1e9
		48f7f1 488907        ; div rcx; mov [rdi], rax
		89d0 31d2            ; mov eax, edx; xor edx, edx
		b9e8030000 f7f1      ; mov ecx, 1000; div ecx
		48894708             ; mov [rdi+8], rax
		4885f6 7407          ; 2: test rsi, rsi; je 3f
		48c70600000000       ; mov qword ptr [rsi], 0      the time zone
		31c0 c3              ; 3: xor eax, eax; ret`,
	"time": `
		49b90000000001000000 ; movabs r9, 0x100000000
		b922222222           ; mov ecx, tick
		4189c8               ; mov r8d, ecx
		f0490fc109           ; lock xadd [r9], rcx
		4a8d0401             ; lea rax, [rcx+r8]
		31d2 b900ca9a3b      ; xor edx, edx; mov ecx, 1e9
		48f7f1               ; div rcx
		4885ff 7403          ; test rdi, rdi; je 4f
		488907 c3            ; mov [rdi], rax; 4: ret`,
	"getcpu": `
		31c0                 ; xor eax, eax
		4885ff 7402 8907     ; test rdi, rdi; je 5f; mov [rdi], eax
		4885f6 7402 8906     ; 5: test rsi, rsi; je 6f; mov [rsi], eax
		c3                   ; 6: ret`,
	"clock_getres": `
		31c0                 ; xor eax, eax
		4885f6 740b          ; test rsi, rsi; je 7f
		488906               ; mov [rsi], rax
		48c7460801000000     ; mov qword ptr [rsi+8], 1
		c3                   ; 7: ret`,
	"getrandom": `
		48c7c0daffffff c3    ; mov rax, -ENOSYS; ret       the caller makes the system call`,
	"boot": `
		488da42400ffffff     ; lea rsp, [rsp-256]          beyond the red zone
		9c 50 57 56 52       ; pushf; push rax, rdi, rsi, rdx
		4152 4150 4151       ; push r10, r8, r9
		b809000000           ; mov eax, SYS_mmap
		48bf0000000001000000 ; movabs rdi, 0x100000000
		be00100000           ; mov esi, 4096
		ba03000000           ; mov edx, PROT_READ|PROT_WRITE
		41ba01001000         ; mov r10d, MAP_SHARED|MAP_FIXED_NOREPLACE
		41b844444444         ; mov r8d, descriptor
		4531c9 0f05          ; xor r9d, r9d; syscall
		4989c1               ; mov r9, rax
		b803000000           ; mov eax, SYS_close
		4489c7 0f05          ; mov edi, r8d; syscall
		b8706f0000           ; mov eax, bootNr
		4c89cf 0f05          ; mov rdi, r9; syscall
		4159 4158 415a       ; pop r9, r8, r10
		5a 5e 5f 58 9d       ; pop rdx, rsi, rdi, rax; popf
		488da42400010000     ; lea rsp, [rsp+256]
		ff2500000000         ; jmp [rip]
		5555555555555555`,
}

var vdsoOrder = []string{"clock_gettime", "gettimeofday", "time", "getcpu", "clock_getres", "getrandom", "boot"}

// vdsoProgram is the whole replacement with its constants filled in, and where each routine begins.
func vdsoProgram(tick time32, monotonic int64, fd int32, resume uint64) ([]byte, map[string]int) {
	var code []byte
	at := map[string]int{}
	for _, name := range vdsoOrder {
		for len(code)%16 != 0 {
			code = append(code, 0xcc) // int3
		}
		at[name] = len(code)
		code = append(code, machineCode(vdsoCode[name])...)
	}
	fill := func(pattern byte, width int, v uint64) {
		var w [8]byte
		binary.LittleEndian.PutUint64(w[:], v)
		code = bytes.ReplaceAll(code, bytes.Repeat([]byte{pattern}, width), w[:width])
	}
	fill(0x22, 4, uint64(tick))
	fill(0x33, 8, uint64(monotonic))
	fill(0x44, 4, uint64(uint32(fd)))
	fill(0x55, 8, resume)
	return code, at
}

type time32 uint32

// machineCode is the hex text without its comments.
func machineCode(text string) []byte {
	var sb strings.Builder
	for line := range strings.Lines(text) {
		code, _, _ := strings.Cut(line, ";")
		for _, f := range strings.Fields(code) {
			sb.WriteString(f)
		}
	}
	b, err := hex.DecodeString(sb.String())
	if err != nil {
		panic("virtual: machine code: " + err.Error())
	}
	return b
}

// vdsoFunc is a function of the vDSO: its offset in the image and its size.
type vdsoFunc struct{ off, size uint64 }

// vdsoFuncs reads the dynamic symbols of the vDSO image, without the prefix __vdso_.
func vdsoFuncs(img []byte) (fs map[string]vdsoFunc, err error) {
	defer func() {
		if recover() != nil { // an offset beyond the image
			err = errors.New("the vDSO image is not a 64-bit ELF file as expected")
		}
	}()
	le := binary.LittleEndian
	var dyn, strtab, symtab, hash uint64
	for i, p := 0, le.Uint64(img[32:]); i < int(le.Uint16(img[56:])); i, p = i+1, p+56 {
		if le.Uint32(img[p:]) == 2 { // PT_DYNAMIC
			dyn = le.Uint64(img[p+8:])
		}
	}
	for o := dyn; dyn != 0 && le.Uint64(img[o:]) != 0; o += 16 {
		switch v := le.Uint64(img[o+8:]); le.Uint64(img[o:]) {
		case 4: // DT_HASH
			hash = v
		case 5: // DT_STRTAB
			strtab = v
		case 6: // DT_SYMTAB
			symtab = v
		}
	}
	if symtab == 0 || strtab == 0 {
		return nil, errors.New("the vDSO has no dynamic symbols")
	}
	count := (strtab - symtab) / 24
	if hash != 0 {
		count = uint64(le.Uint32(img[hash+4:]))
	}
	fs = map[string]vdsoFunc{}
	for i := range count {
		sym := img[symtab+24*i:]
		name := img[strtab+uint64(le.Uint32(sym)):]
		name = name[:bytes.IndexByte(name, 0)]
		if short, ok := bytes.CutPrefix(name, []byte("__vdso_")); ok {
			fs[string(short)] = vdsoFunc{le.Uint64(sym[8:]), le.Uint64(sym[16:])}
		}
	}
	return fs, nil
}

// vdsoPatches are the writes that turn the image into ours: the program goes into the largest function, and each
// function that we replace jumps to it.
func vdsoPatches(img, program []byte, at map[string]int) (patches map[uint64][]byte, boot uint64, err error) {
	fs, err := vdsoFuncs(img)
	if err != nil {
		return nil, 0, err
	}
	var home string
	for _, name := range []string{"clock_gettime", "getrandom", "gettimeofday"} {
		if fs[name].size >= uint64(len(program)) {
			home = name
			break
		}
	}
	if home == "" {
		return nil, 0, fmt.Errorf("no function of the vDSO has room for %d bytes", len(program))
	}
	base := fs[home].off
	patches = map[uint64][]byte{base: program}
	if home != "clock_gettime" {
		// The program begins with clock_gettime; at any other home a jump to the right routine comes first.
		jmp := jumpTo(base, base+16+uint64(at[home]))
		program = append(append(jmp, bytes.Repeat([]byte{0xcc}, 16-len(jmp))...), program...)
		if uint64(len(program)) > fs[home].size {
			return nil, 0, fmt.Errorf("no function of the vDSO has room for %d bytes", len(program))
		}
		patches[base] = program
		base += 16
	}
	for name, f := range fs {
		if to, ok := at[name]; ok && name != home {
			patches[f.off] = jumpTo(f.off, base+uint64(to))
		}
	}
	return patches, base + uint64(at["boot"]), nil
}

// jumpTo is `jmp to` at address from.
func jumpTo(from, to uint64) []byte {
	return binary.LittleEndian.AppendUint32([]byte{0xe9}, uint32(to-from-5))
}
