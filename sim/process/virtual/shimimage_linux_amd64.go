package virtual

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"errors"
	"os"
	"sync"

	"golang.org/x/sys/unix"
)

// The shim is a program of one page, written here: the supervising program itself, started again for it, is a hundred
// megabytes and more, which cost an exec, page faults and the start of a Go runtime for each process.
//
// It installs the filter, hands the filter's listener to the supervisor and becomes the guest. Arguments: the executable,
// its argv; the environment is the guest's. What it needs to know beyond that lies in its data:
//
//	  0 struct sock_fprog    of the filter
//	 16 struct iovec         of the body
//	 32 struct msghdr        that passes the listener
//	 88 struct msghdr        that says which step failed, and why
//	144 the body             step and errno, 32 bits each
//	152 struct cmsghdr       with one descriptor, at 168
//	176 the filter
const shimCode = `
	4889e3 49bc7777777777777777 ; mov rbx, rsp; movabs r12, data
	b848000000 bf03000000       ; mov eax, SYS_fcntl; mov edi, shimSocket
	be02000000 ba01000000 0f05  ; mov esi, F_SETFD; mov edx, FD_CLOEXEC; syscall
	b803000000 bf04000000 0f05  ; mov eax, SYS_close; mov edi, shimFile; syscall

	                            ; The layout of memory is part of what a process can see. Refused in some containers:
	                            ; then addresses differ between runs, which matters only to programs that show them.
	b887000000 bf00000400 0f05  ; mov eax, SYS_personality; mov edi, ADDR_NO_RANDOMIZE; syscall

	31d2 4531d2 4531c0          ; xor edx, edx; xor r10d, r10d; xor r8d, r8d
	                            ; Like the first process of a container, the program inherits the orphans among its
	                            ; descendants.
	be01000000 bf24000000       ; mov esi, 1; mov edi, PR_SET_CHILD_SUBREAPER
	b89d000000 0f05             ; mov eax, SYS_prctl; syscall

	bf26000000 b89d000000       ; mov edi, PR_SET_NO_NEW_PRIVS; mov eax, SYS_prctl
	41bd02000000 0f05           ; mov r13d, 2; syscall
	4885c0 786d                 ; test rax, rax; js fail

	bf01000000 be2c000000       ; mov edi, SECCOMP_SET_MODE_FILTER; mov esi, SPEC_ALLOW|NEW_LISTENER|WAIT_KILLABLE_RECV
	4c89e2 b83d010000           ; mov rdx, r12; mov eax, SYS_seccomp
	41bd03000000 0f05           ; mov r13d, 3; syscall
	4885c0 784e                 ; test rax, rax; js fail
	41898424a8000000            ; mov [r12+168], eax

	bf03000000 498d742420       ; mov edi, shimSocket; lea rsi, [r12+32]
	49be000000006873706f 4c89f2 ; movabs r14, shimMagic<<32; mov rdx, r14
	b82e000000                  ; mov eax, SYS_sendmsg
	41bd04000000 0f05           ; mov r13d, 4; syscall
	4885c0 781d                 ; test rax, rax; js fail

	488b0b 488b7b10             ; mov rcx, [rbx]; mov rdi, [rbx+16]
	488d7318 488d54cb10         ; lea rsi, [rbx+24]; lea rdx, [rbx+rcx*8+16]
	41ba6873706f                ; mov r10d, shimMagic
	b83b000000 0f05             ; mov eax, SYS_execve; syscall

	f7d8 4589ac2490000000       ; fail: neg eax; mov [r12+144], r13d
	4189842494000000            ; mov [r12+148], eax
	bf03000000 498d742458       ; mov edi, shimSocket; lea rsi, [r12+88]
	48ba000000006873706f        ; movabs rdx, shimMagic<<32
	b82e000000 0f05             ; mov eax, SYS_sendmsg; syscall
	bf7f000000 b8e7000000 0f05  ; end: mov edi, 127; mov eax, SYS_exit_group; syscall
	ebf2                        ; jmp end`

// The shim's descriptors: its socket to the supervisor, and the file that it was made from.
const (
	shimSocket = 3
	shimFile   = 4
)

// Where the shim lies: above what a guest's Go text may cover.
const (
	shimText = 1 << 40
	shimData = shimText + 1<<20
	pageSize = 4096
)

// shimImage is the shim as an ELF executable: a page of headers and code, and the data.
func shimImage(text goText) []byte {
	var where [8]byte
	binary.LittleEndian.PutUint64(where[:], shimData)
	code := bytes.Replace(machineCode(shimCode), bytes.Repeat([]byte{0x77}, 8), where[:], 1)
	filter := assemble(traps(), text)

	le := binary.LittleEndian
	const fprog, iov, pass, fail, body, control, program = 0, 16, 32, 88, 144, 152, 176
	data := make([]byte, program)
	le.PutUint16(data[fprog:], uint16(len(filter)))
	le.PutUint64(data[fprog+8:], shimData+program)
	le.PutUint64(data[iov:], shimData+body)
	le.PutUint64(data[iov+8:], 8)
	for _, msg := range []int{pass, fail} {
		le.PutUint64(data[msg+16:], shimData+iov)
		le.PutUint64(data[msg+24:], 1)
	}
	le.PutUint64(data[pass+32:], shimData+control)
	le.PutUint64(data[pass+40:], uint64(unix.CmsgSpace(4)))
	le.PutUint64(data[control:], uint64(unix.CmsgLen(4)))
	le.PutUint32(data[control+8:], unix.SOL_SOCKET)
	le.PutUint32(data[control+12:], unix.SCM_RIGHTS)
	for _, f := range filter {
		data = le.AppendUint16(data, f.Code)
		data = append(data, f.Jt, f.Jf)
		data = le.AppendUint32(data, f.K)
	}

	header := elf.Header64{
		Ident: [elf.EI_NIDENT]byte{0x7f, 'E', 'L', 'F', byte(elf.ELFCLASS64), byte(elf.ELFDATA2LSB), byte(elf.EV_CURRENT)},
		Type:  uint16(elf.ET_EXEC), Machine: uint16(elf.EM_X86_64), Version: uint32(elf.EV_CURRENT),
		Phoff: 64, Ehsize: 64, Phentsize: 56, Phnum: 3,
	}
	header.Entry = shimText + uint64(header.Ehsize+header.Phentsize*header.Phnum)
	segments := []elf.Prog64{
		{Type: uint32(elf.PT_LOAD), Flags: uint32(elf.PF_R | elf.PF_X), Vaddr: shimText, Filesz: pageSize, Memsz: pageSize, Align: pageSize},
		{Type: uint32(elf.PT_LOAD), Flags: uint32(elf.PF_R | elf.PF_W), Off: pageSize, Vaddr: shimData, Filesz: uint64(len(data)), Memsz: uint64(len(data)), Align: pageSize},
		{Type: uint32(elf.PT_GNU_STACK), Flags: uint32(elf.PF_R | elf.PF_W), Align: 16},
	}
	var image bytes.Buffer
	_ = binary.Write(&image, le, header) // to memory
	_ = binary.Write(&image, le, segments)
	image.Write(code)
	return append(append(image.Bytes(), make([]byte, pageSize-image.Len())...), data...)
}

// shimFiles are the shims of this process's life, by the text that their filter knows. They are never closed.
var shimFiles = struct {
	sync.Mutex
	all map[goText]*os.File
}{all: map[goText]*os.File{}}

// shimFor is an open file with the shim.
func shimFor(text goText) (*os.File, error) {
	shimFiles.Lock()
	defer shimFiles.Unlock()
	if f := shimFiles.all[text]; f != nil {
		return f, nil
	}
	f, err := executable(shimImage(text))
	if err == nil {
		shimFiles.all[text] = f
	}
	return f, err
}

// executable is an open file without a name that holds CONTENT and can be executed.
func executable(content []byte) (*os.File, error) {
	f, err := memoryFile(content)
	if err != nil { // refused (vm.memfd_noexec)
		return temporaryFile(content)
	}
	return f, nil
}

// memoryFile is an executable file that is nowhere but in memory.
func memoryFile(content []byte) (*os.File, error) {
	fd, err := unix.MemfdCreate("shim", unix.MFD_EXEC|unix.MFD_CLOEXEC)
	if errors.Is(err, unix.EINVAL) { // before Linux 6.3 there is no such flag, and all can be executed
		fd, err = unix.MemfdCreate("shim", unix.MFD_CLOEXEC)
	}
	if err != nil {
		return nil, err
	}
	f := os.NewFile(uintptr(fd), "shim")
	if _, err := f.Write(content); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// temporaryFile is an executable file that has no name any more, and that nobody has open for writing: such a one could
// not be executed.
func temporaryFile(content []byte) (*os.File, error) {
	f, err := os.CreateTemp("", "opsim-shim")
	if err != nil {
		return nil, err
	}
	defer os.Remove(f.Name())
	_, err = f.Write(content)
	if err := errors.Join(err, f.Chmod(0o700), f.Close()); err != nil {
		return nil, err
	}
	return os.Open(f.Name())
}
