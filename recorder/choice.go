package recorder

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/opreplay/opreplay/bpf"
	"github.com/opreplay/opreplay/internal/cli"
)

// Choice says which processes are looked at from the kernel: those of one rule. Those that come later are taken by
// the same rule, as after a restart.
type Choice struct {
	// PID is a process by its number.
	PID int
	// Comm is a command's name, as ps shows it, or the name of its binary.
	Comm string
	// Container is a container by its id, or by the first six digits of it or more.
	Container string
	// Pod is a pod as NAMESPACE/NAME.
	Pod string
}

// flag is the rule as the command line has it, "" for none.
func (c *Choice) flag() string {
	switch {
	case c.PID != 0:
		return "--pid " + strconv.Itoa(c.PID)
	case c.Comm != "":
		return "--comm " + c.Comm
	case c.Container != "":
		return "--container " + c.Container
	case c.Pod != "":
		return "--pod " + c.Pod
	}
	return ""
}

// name is what to call the processes of the choice before one is found.
func (c *Choice) name() string {
	switch {
	case c.PID != 0:
		if exe, err := exeOf(c.PID); err == nil {
			return filepath.Base(exe)
		}
		return strconv.Itoa(c.PID)
	case c.Pod != "":
		_, name, _ := strings.Cut(c.Pod, "/")
		return name
	}
	return c.Comm + c.Container
}

const leastID = 6 // digits of a container's id, below which it may be any

// check refuses what chooses nothing, or too much.
func (c *Choice) check() error {
	var rules []string
	for _, one := range []Choice{{PID: c.PID}, {Comm: c.Comm}, {Container: c.Container}, {Pod: c.Pod}} {
		if s := one.flag(); s != "" {
			rules = append(rules, s)
		}
	}
	switch {
	case len(rules) > 1:
		return cli.Usagef("%s and %s: choose processes in one way", rules[0], rules[1])
	case c.PID < 0:
		return cli.Usagef("--pid %d: want the number of a process", c.PID)
	case strings.ContainsAny(c.Comm, "/\n"):
		return cli.Usagef("--comm %s: want a command's name without its path, such as manager", c.Comm)
	case c.Container != "" && (len(c.Container) < leastID || strings.Contains(c.Container, "/")):
		return cli.Usagef("--container %s: want a container's id, or at least its first %d digits", c.Container, leastID)
	case c.Pod != "":
		namespace, name, ok := strings.Cut(c.Pod, "/")
		if !ok || namespace == "" || name == "" || strings.Contains(name, "/") {
			return cli.Usagef("--pod %s: want NAMESPACE/NAME", c.Pod)
		}
	}
	return nil
}

// rule says of a process whether it is chosen.
type rule func(pid int) bool

// rule is that of the choice. UIDS are those that the pod's processes may go by in their cgroups.
func (c *Choice) rule(uids func() []string) rule {
	switch {
	case c.PID != 0:
		return func(pid int) bool { return pid == c.PID }
	case c.Comm != "":
		return func(pid int) bool { return called(pid, c.Comm) }
	case c.Container != "":
		return func(pid int) bool { return slices.ContainsFunc(cgroups(pid), c.inContainer) }
	default:
		return func(pid int) bool {
			for _, uid := range uids() {
				if slices.ContainsFunc(cgroups(pid), func(group string) bool { return inPod(group, uid) }) {
					return true
				}
			}
			return false
		}
	}
}

// maxComm is how much of a command's name the kernel keeps: TASK_COMM_LEN of linux/sched.h, less its end.
const maxComm = 15

// called says whether a process goes by a name.
func called(pid int, name string) bool {
	comm, err := os.ReadFile(procOf(pid, "comm"))
	if err != nil {
		return false
	}
	if string(bytes.TrimSuffix(comm, []byte("\n"))) == name[:min(len(name), maxComm)] {
		return true
	}
	exe, err := exeOf(pid)
	return err == nil && filepath.Base(exe) == name
}

func procOf(pid int, file string) string {
	return filepath.Join("/proc", strconv.Itoa(pid), file)
}

// exeOf is the path of a process's binary as the process sees it.
func exeOf(pid int) (string, error) {
	target, err := os.Readlink(procOf(pid, "exe"))
	return strings.TrimSuffix(target, " (deleted)"), err
}

// cgroups are the paths of a process's cgroups, of version 1 a path for each controller (cgroups(7)).
func cgroups(pid int) (paths []string) {
	text, err := os.ReadFile(procOf(pid, "cgroup"))
	if err != nil {
		return nil
	}
	for line := range strings.Lines(string(text)) {
		if fields := strings.SplitN(strings.TrimSuffix(line, "\n"), ":", 3); len(fields) == 3 && !slices.Contains(paths, fields[2]) {
			paths = append(paths, fields[2])
		}
	}
	return paths
}

// inContainer says whether a cgroup is that of the container. Runtimes call it, or the systemd scope of that name,
// by the container's id: /docker/ID, docker-ID.scope, cri-containerd-ID.scope, crio-ID.scope, libpod-ID.scope; below
// a pod's cgroup, or in one of its own.
func (c *Choice) inContainer(group string) bool {
	for name := range strings.SplitSeq(group, "/") {
		id := strings.TrimSuffix(name, ".scope")
		if strings.HasPrefix(id, "crio-conmon-") || strings.HasPrefix(id, "libpod-conmon-") {
			continue // the container's keeper
		}
		if id == c.Container {
			return true
		}
		if id = id[strings.LastIndexByte(id, '-')+1:]; len(id) == 64 && strings.HasPrefix(id, strings.ToLower(c.Container)) {
			return true
		}
	}
	return false
}

// inPod says whether a cgroup is the pod's or lies below it: podUID, or in systemd's form kubepods-CLASS-podUID.slice
// with underscores (pkg/kubelet/cm of k8s.io/kubernetes).
func inPod(group, uid string) bool {
	for name := range strings.SplitSeq(group, "/") {
		name = strings.TrimSuffix(name, ".slice")
		if i := strings.LastIndex(name, "pod"); i >= 0 && strings.ReplaceAll(name[i+len("pod"):], "_", "-") == uid {
			return true
		}
	}
	return false
}

// check refuses what can't be looked at.
func (o *Options) check() error {
	if err := o.Choice.check(); err != nil {
		return err
	}
	if err := o.Scrape.check(); err != nil {
		return err
	}
	return checkHz(o.Hz)
}

// lookAt makes ready to look at the processes that are chosen, nil for none, and gives the rule by which they are.
func (o *Options) lookAt(ctx context.Context, c *cluster) (*profiler, rule, error) {
	flag := o.Choice.flag()
	if flag == "" {
		return nil, nil, nil
	}
	path := ""
	if o.PID != 0 {
		path = procOf(o.PID, "exe")
		if _, err := os.Stat(path); errors.Is(err, os.ErrNotExist) {
			return nil, nil, cli.Usagef("%s: no such process", flag)
		} else if err != nil {
			return nil, nil, mayNot(flag, err)
		}
	}
	uids := &podUIDs{cluster: c, pod: o.Pod}
	if o.Pod != "" {
		if err := uids.read(ctx); err != nil {
			return nil, nil, err
		}
	}
	p, err := openProfiler(path, o)
	if err != nil {
		return nil, nil, mayNot(flag, err)
	}
	return p, o.Choice.rule(func() []string { return uids.now(ctx) }), nil
}

// mayNot is why a process can't be looked at, in terms of what is missing.
func mayNot(flag string, err error) error {
	if errors.Is(err, os.ErrPermission) {
		if missing := bpf.Check(true); missing != nil {
			err = missing
		}
	}
	return cli.CannotRun(fmt.Errorf("%s: %w", flag, err))
}
