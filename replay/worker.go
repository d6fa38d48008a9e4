package replay

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/opreplay/opreplay/internal/cli"
)

// job asks a worker for one run.
type job struct {
	Run int    `json:"run"`
	Out string `json:"out"` // folder for its trace
}

// answer is what came of it.
type answer struct {
	Run   int    `json:"run"`
	Hash  string `json:"hash,omitempty"`
	Error string `json:"error,omitempty"`
}

// Serve plays runs for a Check in another process: it reads what to do from IN, a JSON value a run, and writes what
// came of it to OUT, until IN ends.
func Serve(ctx context.Context, o Options, in io.Reader, out io.Writer) error {
	o.Clock = ClockVirtual
	s, err := Open(ctx, o)
	if err != nil {
		return err
	}
	defer s.Close()
	read, write := json.NewDecoder(in), json.NewEncoder(out)
	for {
		var j job
		if err := read.Decode(&j); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return cli.CannotRun(err)
		}
		a := answer{Run: j.Run}
		if r, err := s.play(ctx, j.Out); err != nil {
			a.Error = err.Error()
		} else {
			a.Hash = r.Hash
		}
		if err := write.Encode(a); err != nil {
			return cli.CannotRun(err)
		}
	}
}

// remote plays in another process.
func (k *checker) remote(ctx context.Context) (err error) {
	cmd := k.o.Worker(ctx)
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) } // so that it ends its operators
	cmd.WaitDelay = 10 * time.Second
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		return err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	err = k.ask(in, out)
	_ = in.Close() // that is how it is told to end
	ended := cmd.Wait()
	if ended != nil && ctx.Err() == nil {
		return fmt.Errorf("%w: %w: %s", errWorkerEnded, ended, strings.TrimSpace(stderr.String()))
	}
	return err
}

// ask has the worker play runs until there are none left.
func (k *checker) ask(in io.Writer, out io.Reader) error {
	write, read := json.NewEncoder(in), json.NewDecoder(out)
	for n := range k.jobs {
		var a answer
		if err := errors.Join(write.Encode(job{n, k.folder(n)}), read.Decode(&a)); err != nil {
			return fmt.Errorf("%w: run %d: %w", errWorkerEnded, n, err)
		}
		if a.Error != "" {
			return fmt.Errorf("run %d: %s", n, a.Error)
		}
		if err := k.take(outcome{n, a.Hash, k.folder(n)}); err != nil {
			return err
		}
	}
	return nil
}
