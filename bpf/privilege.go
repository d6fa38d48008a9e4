package bpf

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
)

// Capabilities by their numbers in linux/capability.h.
const (
	capSysPtrace = 19
	capSysAdmin  = 21
	capPerfmon   = 38
	capBPF       = 39
)

// /proc/self/ns/NAME of a process in the namespaces of the host (PROC_PID_INIT_INO and PROC_USER_INIT_INO in
// linux/proc_ns.h): one that numbers processes as the kernel does, and whose capabilities are the kernel's.
const (
	hostPIDs  = "pid:[4026531836]"
	hostUsers = "user:[4026531837]"
)

// Check says in one sentence what is missing to load programs and to sample, before the kernel says it in its own
// words: nil if nothing is. PEEK asks for what it takes to look at another user's process, too.
func Check(peek bool) error {
	f, err := os.Open("/proc/self/status")
	if err != nil {
		return fmt.Errorf("eBPF recording needs Linux: %w", err)
	}
	defer func() { _ = f.Close() }()
	effective, err := effectiveCaps(f)
	if err != nil {
		return err
	}
	if err := missing(effective, peek); err != nil {
		return err
	}
	// A container's root has all capabilities there, and the kernel asks for its own.
	if err := inHost("user", hostUsers, "the host's users, and this container has its own: run it where root is the host's (not rootless; hostUsers: true)"); err != nil {
		return err
	}
	// Programs see the kernel's numbers: in a container those that we know may be another process's.
	return inHost("pid", hostPIDs, "the host's process numbers, and this container has its own: run it with hostPID: true (Kubernetes) or --pid=host (docker run)")
}

// inHost wants this process's namespace of the kind NAME to be the host's, else says what is needed.
func inHost(name, host, need string) error {
	switch link, err := os.Readlink("/proc/self/ns/" + name); {
	case err != nil:
		return fmt.Errorf("eBPF recording can't tell whether it is in a container: %w", err)
	case link != host:
		return errors.New("eBPF recording needs " + need)
	}
	return nil
}

func missing(effective uint64, peek bool) error {
	has := func(c int) bool { return effective>>c&1 != 0 }
	var names []string
	if !has(capBPF) && !has(capSysAdmin) {
		names = append(names, "CAP_BPF")
	}
	if !has(capPerfmon) && !has(capSysAdmin) {
		names = append(names, "CAP_PERFMON")
	}
	if peek && !has(capSysPtrace) {
		names = append(names, "CAP_SYS_PTRACE (another user's process)")
	}
	if len(names) == 0 {
		return nil
	}
	return fmt.Errorf("eBPF recording lacks %s: run as root, or grant them to this program (setcap)", strings.Join(names, " and "))
}

// effectiveCaps reads the effective capabilities of a process's status (proc_pid_status(5)).
func effectiveCaps(status io.Reader) (uint64, error) {
	lines := bufio.NewScanner(status)
	for lines.Scan() {
		if v, ok := strings.CutPrefix(lines.Text(), "CapEff:"); ok {
			return strconv.ParseUint(strings.TrimSpace(v), 16, 64)
		}
	}
	if err := lines.Err(); err != nil {
		return 0, err
	}
	return 0, fmt.Errorf("the process's status names no capabilities")
}
