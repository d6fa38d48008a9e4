package workers

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"time"
)

// reply is an answer on its way.
type reply[A any] struct {
	Answer A      `json:"answer"`
	Error  string `json:"error,omitempty"`
}

// Serve answers what it reads from IN, to OUT, until IN ends. An error of ANSWER goes to who asked.
func Serve[Q, A any](in io.Reader, out io.Writer, answer func(Q) (A, error)) error {
	read, write := json.NewDecoder(in), json.NewEncoder(out)
	for {
		var q Q
		if err := read.Decode(&q); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return fmt.Errorf("what is asked of this process: %w", err)
		}
		var r reply[A]
		var err error
		if r.Answer, err = answer(q); err != nil {
			r.Error = err.Error()
		}
		if err := write.Encode(r); err != nil {
			return fmt.Errorf("answer of this process: %w", err)
		}
	}
}

// Process is another process that calls Serve. It is for one goroutine at a time.
type Process[Q, A any] struct {
	cmd    *exec.Cmd
	in     io.WriteCloser
	read   *json.Decoder
	write  *json.Encoder
	stderr bytes.Buffer
}

// grace is how long a process may take to end after an interrupt.
const grace = 10 * time.Second

// Start starts CMD. It is interrupted, not killed, when its context ends, so that it can end its own children.
func Start[Q, A any](cmd *exec.Cmd) (*Process[Q, A], error) {
	p := &Process[Q, A]{cmd: cmd}
	if cmd.Cancel != nil { // it has a context
		cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
		cmd.WaitDelay = grace
	}
	cmd.Stderr = &p.stderr
	var err error
	if p.in, err = cmd.StdinPipe(); err != nil {
		return nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	p.read, p.write = json.NewDecoder(out), json.NewEncoder(p.in)
	return p, cmd.Start()
}

// ErrEnded is the error of a process that ended before it had answered.
var ErrEnded = errors.New("a process that was given work ended before its time")

// Ask asks and waits for the answer.
func (p *Process[Q, A]) Ask(q Q) (A, error) {
	var r reply[A]
	if err := errors.Join(p.write.Encode(q), p.read.Decode(&r)); err != nil {
		p.End() // then all is there of what it had to say
		return r.Answer, fmt.Errorf("%w: %w: %s", ErrEnded, err, strings.TrimSpace(p.stderr.String()))
	}
	if r.Error != "" {
		return r.Answer, errors.New(r.Error)
	}
	return r.Answer, nil
}

// End has the process end, and waits for it.
func (p *Process[Q, A]) End() {
	_ = p.in.Close() // that is how it is told to end
	_ = p.cmd.Wait() // what it has to say of that is of no interest
}
