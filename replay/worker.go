package replay

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/opreplay/opreplay/internal/cli"
	"github.com/opreplay/opreplay/internal/workers"
)

// job asks a worker for one run.
type job struct {
	Start time.Time `json:"start"` // the runs' first moment: it may follow from the wall clock
	Out   string    `json:"out"`   // folder for its trace
}

// Serve plays runs for a Check in another process: it reads what to do from IN, a JSON value a run, and writes the
// hash of each to OUT, until IN ends.
func Serve(ctx context.Context, o Options, in io.Reader, out io.Writer) error {
	o.Clock = ClockVirtual
	var s *Session
	defer func() {
		if s != nil {
			s.Close()
		}
	}()
	return cli.CannotRun(workers.Serve(in, out, func(j job) (string, error) {
		if s == nil {
			o.Start = j.Start
			var err error
			if s, err = Open(ctx, o); err != nil {
				return "", err
			}
		}
		r, err := s.play(ctx, j.Out)
		if err != nil {
			return "", err
		}
		return r.Hash, nil
	}))
}

// remote plays in another process until there are no runs left.
func (k *checker) remote(ctx context.Context) error {
	p, err := workers.Start[job, string](k.o.Worker(ctx))
	if err != nil {
		return err
	}
	defer p.End()
	for n := range k.jobs {
		hash, err := p.Ask(job{k.s.Start(), k.folder(n)})
		if err != nil {
			return fmt.Errorf("run %d: %w", n, err)
		}
		if err := k.take(outcome{n, hash, k.folder(n)}); err != nil {
			return err
		}
	}
	return nil
}
