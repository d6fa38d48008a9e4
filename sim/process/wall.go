package process

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/opreplay/opreplay/internal/oplog"
)

// Wall runs processes by os/exec on the wall clock.
type Wall struct{}

// drain is how long output is read after the process and its group are gone: a grandchild that left the group
// may hold the pipe for ever.
const drain = time.Second

// Start implements Runner.
func (Wall) Start(spec Spec) (Process, error) {
	argv := spec.argv()
	path, err := find(argv[0])
	if err != nil {
		return nil, err
	}
	p := &wallProcess{done: make(chan struct{})}
	p.cmd = &exec.Cmd{Path: path, Args: argv, Env: environment(spec), SysProcAttr: ownGroup()}
	readers, err := p.pipes(spec.Output)
	if err != nil {
		return nil, err
	}
	started := make(chan error)
	go p.run(started, readers)
	if err := <-started; err != nil {
		return nil, startError(argv[0], err)
	}
	return p, nil
}

type wallProcess struct {
	cmd     *exec.Cmd
	reading sync.WaitGroup
	done    chan struct{}
	exit    Exit

	mu      sync.Mutex
	stopped bool
}

// pipes connects the process's output and starts to read it. The child's ends are closed by run.
func (p *wallProcess) pipes(output func(stream, line string)) (readers []*os.File, err error) {
	if output == nil {
		output = func(string, string) {}
	}
	for _, stream := range []string{"stdout", "stderr"} {
		r, w, err := os.Pipe()
		if err != nil {
			return nil, fmt.Errorf("pipe for the operator's %s: %w", stream, err)
		}
		if stream == "stdout" {
			p.cmd.Stdout = w
		} else {
			p.cmd.Stderr = w
		}
		readers = append(readers, r)
		p.reading.Go(func() {
			// The error is the end of the pipe or the deadline that run sets.
			_ = oplog.Lines(r, func(line string) { output(stream, line) })
			_ = r.Close()
		})
	}
	return readers, nil
}

// run starts the process and waits for it, all on one thread of the operating system: Linux sends the parent
// death signal when the thread that forked ends.
func (p *wallProcess) run(started chan<- error, readers []*os.File) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	err := p.cmd.Start()
	for _, w := range []any{p.cmd.Stdout, p.cmd.Stderr} {
		_ = w.(*os.File).Close() // the child has its own copies
	}
	started <- err
	if err != nil {
		return
	}
	// The state says all that Wait's error would.
	_ = p.cmd.Wait()
	killGroup(p.cmd.Process.Pid)
	for _, r := range readers {
		_ = r.SetReadDeadline(time.Now().Add(drain))
	}
	p.reading.Wait()
	p.mu.Lock()
	p.exit = exitOf(p.cmd.ProcessState)
	p.exit.Stopped = p.stopped
	p.mu.Unlock()
	close(p.done)
}

// PID is the process's number.
func (p *wallProcess) PID() int { return p.cmd.Process.Pid }

func (p *wallProcess) Done() <-chan struct{} { return p.done }
func (p *wallProcess) Exit() Exit            { return p.exit }

func (p *wallProcess) CPU() time.Duration {
	return p.cmd.ProcessState.UserTime() + p.cmd.ProcessState.SystemTime()
}

func (p *wallProcess) Stop(grace time.Duration) Exit {
	p.mu.Lock()
	select {
	case <-p.done:
	default:
		p.stopped = true
	}
	p.mu.Unlock()
	terminate(p.cmd.Process)
	timer := time.NewTimer(grace)
	defer timer.Stop()
	select {
	case <-p.done:
	case <-timer.C:
		killGroup(p.cmd.Process.Pid)
		_ = p.cmd.Process.Kill() // on platforms without groups
		<-p.done
	}
	return p.exit
}

// Look says whether the command can be started: an error is a *CommandError. It is for asking before work is done
// for the command's sake.
func Look(command []string) error {
	if len(command) == 0 {
		return &CommandError{"", "empty; want the operator's program and its arguments"}
	}
	_, err := find(command[0])
	return err
}

// find is the path of the program NAME.
func find(name string) (string, error) {
	path, err := exec.LookPath(name)
	switch {
	case err == nil:
		return path, nil
	case errors.Is(err, exec.ErrDot):
		return "", &CommandError{name, fmt.Sprintf("not on the PATH, only in this folder; say ./%s", name)}
	case errors.Is(err, fs.ErrPermission), errors.Is(err, syscall.EISDIR):
		return "", &CommandError{name, "not an executable file"}
	case errors.Is(err, exec.ErrNotFound) && !strings.ContainsRune(name, os.PathSeparator):
		return "", &CommandError{name, "not on the PATH"}
	default:
		return "", &CommandError{name, "no such file"}
	}
}

func startError(name string, err error) error {
	if errors.Is(err, syscall.ENOEXEC) || errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrPermission) {
		reason := err
		if path, ok := errors.AsType[*fs.PathError](err); ok {
			reason = path.Err
		}
		return &CommandError{name, "cannot be executed here: " + reason.Error()}
	}
	return fmt.Errorf("start operator: %w", err)
}

// environment is all that the process sees of ours.
func environment(spec Spec) []string {
	return append([]string{
		"KUBECONFIG=" + spec.Kubeconfig,
		"PATH=" + os.Getenv("PATH"),
		"HOME=" + spec.Home,
		"TMPDIR=" + spec.Home,
		"HOSTNAME=" + spec.Name + "-0",
		"POD_NAME=" + spec.Name + "-0",
		"POD_NAMESPACE=default",
		"TZ=UTC",
		"LANG=C.UTF-8",
	}, spec.Env...)
}
