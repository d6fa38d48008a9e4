package replay

import (
	"fmt"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/opreplay/opreplay/internal/cli"
	"github.com/opreplay/opreplay/sim/cluster"
	"github.com/opreplay/opreplay/sim/process"
	"github.com/opreplay/opreplay/sim/process/virtual"
)

// guest is an operator's process in a virtual world.
type guest struct {
	op    *Operator
	proc  *virtual.Process
	lines []*lineSplitter // of its outputs
	// stopped: it was asked to end, or ended by the plan.
	stopped bool
	// away: the plan has ended it, and the run goes on without it until it comes back, if ever.
	away        bool
	incarnation int // how often it has come back
}

func (g *guest) ended() bool {
	_, ended := g.proc.Exited()
	return ended
}

// exit says how it ended.
func (g *guest) exit() process.Exit {
	s, _ := g.proc.Exited()
	e := process.Exit{Code: s.Code, Stopped: g.stopped}
	if s.Signal != 0 {
		e.Signal = process.SignalName(syscall.Signal(s.Signal))
	}
	return e
}

// flush takes the last lines that have no end.
func (g *guest) flush() {
	for _, s := range g.lines {
		s.flush()
	}
}

// over says whether all operators have ended.
func (v *virtualRun) over() bool {
	for _, g := range v.guests {
		if !g.ended() || g.away {
			return false
		}
	}
	return true
}

// start starts an operator's process.
func (v *virtualRun) start(op *Operator) error {
	g := &guest{op: op}
	if err := v.launch(g); err != nil {
		return err
	}
	v.guests = append(v.guests, g)
	v.processes[op.Name] = g
	v.decide("process", "start "+op.Name, "")
	return nil
}

// launch starts a new incarnation of a process.
func (v *virtualRun) launch(g *guest) error {
	spec, err := v.spec(g)
	if err != nil {
		return err
	}
	if g.proc, err = v.sup.Start(spec); err != nil {
		return cli.CannotRun(err)
	}
	return nil
}

// spec describes the process. All that it sees is the same on every machine.
func (v *virtualRun) spec(g *guest) (virtual.Spec, error) {
	command := g.op.Command
	path, err := exec.LookPath(command[0])
	if err == nil {
		path, err = filepath.Abs(path)
	}
	if err != nil {
		return virtual.Spec{}, cli.Usagef("operator command %q: %w", command[0], err)
	}
	args := []string{filepath.Base(path)}
	for _, a := range command[1:] {
		args = append(args, strings.ReplaceAll(a, process.Placeholder, cluster.KubeconfigFile))
	}
	host := g.op.Name + "-0"
	env := append(virtual.GoEnv(),
		"HOME="+virtualHome, "TMPDIR=/tmp", "LANG=C.UTF-8", "HOSTNAME="+host, "POD_NAME="+host)
	spec := virtual.Spec{
		Name: g.op.Name, Incarnation: g.incarnation, Path: path, Exe: "/usr/local/bin/" + args[0], Args: args,
		Env: env, Dir: "/", Hostname: host,
		Stdout: v.output(g, "stdout"), Stderr: v.output(g, "stderr"),
	}
	namespace := "default"
	if sa, ok := g.op.inCluster(v.o.InCluster); ok {
		v.net.Access.InCluster(&spec, sa)
		namespace = sa.Namespace
	} else {
		v.net.Access.ByKubeconfig(&spec)
	}
	spec.Env = withEnv(append(spec.Env, "POD_NAMESPACE="+namespace), v.o.Env)
	return spec, nil
}

// withEnv adds KEY=VALUE pairs, in place of those with the same key: of two of one name Go's runtime sees the first.
func withEnv(env, add []string) []string {
	for _, kv := range add {
		key, _, _ := strings.Cut(kv, "=")
		env = slices.DeleteFunc(env, func(e string) bool { return strings.HasPrefix(e, key+"=") })
		env = append(env, kv)
	}
	return env
}

// output takes what a process writes on one stream.
func (v *virtualRun) output(g *guest, stream string) func([]byte, time.Time) {
	var at time.Time
	log := process.LogTo(v.ledger, g.op.Name, func() time.Time { return at })
	prefix := ""
	if len(v.ops) > 1 {
		prefix = g.op.Name + ": "
	}
	s := &lineSplitter{line: func(line string) {
		log(stream, line)
		if v.o.Stderr != nil {
			_, _ = fmt.Fprintln(v.o.Stderr, prefix+line)
		}
	}}
	g.lines = append(g.lines, s)
	return func(p []byte, when time.Time) {
		at = when
		s.write(p)
	}
}
