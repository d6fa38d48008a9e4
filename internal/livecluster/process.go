package livecluster

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

const (
	// stopGrace is how long a server may take to end by itself.
	stopGrace = 20 * time.Second
	tailLines = 15
)

// process is a server of the cluster.
type process struct {
	name string
	log  string
	cmd  *exec.Cmd
	done chan struct{} // closed when it has ended
	err  error         // how it ended; read after done
}

// startProcess starts a server in the folder DIR, under the guard. Its output goes to a file there.
func startProcess(g *guard, name, binary, dir string, args []string) (*process, error) {
	p := &process{name: name, log: filepath.Join(dir, name+".log"), done: make(chan struct{})}
	log, err := os.OpenFile(p.log, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open the log of %s: %w", name, err)
	}
	defer log.Close()
	p.cmd = exec.Command(binary, args...)
	p.cmd.Dir = dir
	// Nothing of our environment: etcd takes ETCD_… for flags, and Go programs follow proxies.
	p.cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + dir, "TMPDIR=" + os.TempDir()}
	p.cmd.Stdout, p.cmd.Stderr = log, log
	g.join(p.cmd)
	if err := p.cmd.Start(); err != nil {
		return nil, fmt.Errorf("start %s: %w", name, err)
	}
	go func() {
		p.err = p.cmd.Wait()
		close(p.done)
	}()
	return p, nil
}

// ended tells whether the process is gone.
func (p *process) ended() bool {
	select {
	case <-p.done:
		return true
	default:
		return false
	}
}

// failure describes a process that ended though nobody stopped it.
func (p *process) failure() error {
	how := "exit status 0"
	if p.err != nil {
		how = p.err.Error()
	}
	return fmt.Errorf("%s ended (%s); the end of its log:\n%s", p.name, how, p.tail())
}

// tail is the end of the log.
func (p *process) tail() string {
	f, err := os.Open(p.log)
	if err != nil {
		return err.Error()
	}
	defer f.Close()
	const most = 16 << 10
	if info, err := f.Stat(); err == nil && info.Size() > most {
		if _, err := f.Seek(-most, io.SeekEnd); err != nil {
			return err.Error()
		}
	}
	text, err := io.ReadAll(f)
	if err != nil {
		return err.Error()
	}
	lines := strings.Split(strings.TrimRight(string(text), "\n"), "\n")
	return strings.Join(lines[max(0, len(lines)-tailLines):], "\n")
}

// stop ends the process, by force if it does not obey within GRACE.
func (p *process) stop(grace time.Duration) {
	if grace > 0 && terminate(p.cmd.Process) == nil {
		timer := time.NewTimer(grace)
		defer timer.Stop()
		select {
		case <-p.done:
			return
		case <-timer.C:
		}
	}
	_ = p.cmd.Process.Kill() // fails only if it ended in this moment
	<-p.done
}
