package explore

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"

	"github.com/opreplay/opreplay/internal/cli"
	"github.com/opreplay/opreplay/replay"
	"github.com/opreplay/opreplay/replay/trial"
)

// Files in the folder of an exploration.
const (
	identityName = "exploration.json"
	logName      = "done.jsonl"
)

// identity is what an exploration is of: two with the same have the same table, up to the shard.
type identity struct {
	Trace      string             `json:"traceSHA256"`
	Operators  []operatorIdentity `json:"operators"`
	Env        []string           `json:"env,omitempty"`
	Start      time.Time          `json:"start"` // of the runs, as it was settled
	InCluster  replay.InCluster   `json:"inCluster,omitempty"`
	RBAC       bool               `json:"rbac,omitempty"`
	Budget     int                `json:"budget"`
	Seed       uint64             `json:"seed"`
	Shard      int                `json:"shard,omitempty"`
	Shards     int                `json:"shards,omitempty"`
	Settle     time.Duration      `json:"settleNanoseconds"`
	Bound      time.Duration      `json:"boundNanoseconds"`
	Invariants []trial.Invariant  `json:"invariants,omitempty"`
}

type operatorIdentity struct {
	Name   string          `json:"name"`
	Binary string          `json:"binarySHA256"`
	Args   []string        `json:"args"`
	Calls  replay.Identity `json:"recorded"`
}

func newIdentity(o *Options, s *replay.Session) (*identity, error) {
	t := &o.Trial
	id := &identity{
		Trace: t.Replay.Trace.SHA256(), Env: t.Replay.Env, Start: s.Start(), InCluster: t.Replay.InCluster, RBAC: t.Replay.RBAC,
		Budget: o.Budget, Seed: t.Replay.Seed, Shard: o.Shard, Shards: o.Shards,
		Settle: t.Settle, Bound: t.Bound, Invariants: t.Invariants,
	}
	for i, op := range t.Replay.Operators {
		sum, err := binaryHash(op.Command[0])
		if err != nil {
			return nil, err
		}
		id.Operators = append(id.Operators, operatorIdentity{s.Names()[i], sum, op.Command[1:], op.Identity})
	}
	return id, nil
}

func binaryHash(command string) (string, error) {
	path, err := exec.LookPath(command)
	if err != nil {
		return "", cli.Usagef("operator command %q: %w", command, err)
	}
	f, err := os.Open(path)
	if err != nil {
		return "", cli.CannotRun(err)
	}
	defer func() { _ = f.Close() }()
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		return "", cli.CannotRun(err)
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}

// readIdentity is what a folder holds; nil if that is no exploration.
func readIdentity(dir string) (*identity, error) {
	file := filepath.Join(dir, identityName)
	text, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR) {
		return nil, nil
	} else if err != nil {
		return nil, cli.CannotRun(err)
	}
	id := &identity{}
	if err := json.Unmarshal(text, id); err != nil {
		return nil, cli.Usagef("%s: %w: name another folder with --out", file, err)
	}
	return id, nil
}

// equal says whether two explorations have the same table.
func (id *identity) equal(other *identity) bool {
	a, errA := json.Marshal(id)
	b, errB := json.Marshal(other)
	return errA == nil && errB == nil && bytes.Equal(a, b)
}

// sameExploration refuses folders of explorations that differ by more than the shard. A table that lies elsewhere does not
// say of which it is.
func sameExploration(folders []string) error {
	var first *identity
	from := ""
	for _, dir := range folders {
		if info, err := os.Stat(dir); err != nil || !info.IsDir() {
			continue
		}
		id, err := readIdentity(dir)
		if err != nil {
			return err
		}
		if id == nil {
			continue
		}
		id.Shard = 0
		switch {
		case first == nil:
			first, from = id, dir
		case !first.equal(id):
			return cli.Usagef("%s and %s are not of one exploration: compare %s in them", from, dir, identityName)
		}
	}
	return nil
}

// takeUp makes the folder, or goes on with what it holds.
func (c *campaign) takeUp(old *identity, s *replay.Session) error {
	id, err := newIdentity(&c.o, s)
	if err != nil {
		return err
	}
	file := filepath.Join(c.o.Out, identityName)
	switch {
	case old == nil:
		err = begin(file, id)
	case !old.equal(id):
		err = cli.Usagef("folder %s holds another exploration (of another trace, binary, budget, seed, start or shard; see %s): name another one with --out", c.o.Out, file)
	}
	if err != nil {
		return err
	}
	return c.resume()
}

// begin makes the folder of a new exploration.
func begin(file string, id *identity) error {
	text, err := json.MarshalIndent(id, "", "  ")
	if err != nil {
		return err
	}
	dir := filepath.Dir(file)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return cli.Usagef("--out: %w", err)
	}
	if entries, err := os.ReadDir(dir); err == nil && len(entries) > 0 {
		return cli.Usagef("folder %s is not empty and holds no exploration: name another one with --out", dir)
	}
	return cli.CannotRun(os.WriteFile(file, append(text, '\n'), 0o600))
}

// resume reads what was done in earlier sittings, and makes the log ready to be gone on with: a last line that was cut
// off is taken away, so that the next one has a line of its own, and its plan is run again.
func (c *campaign) resume() error {
	file := filepath.Join(c.o.Out, logName)
	text, err := os.ReadFile(file)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return cli.CannotRun(err)
	}
	whole := text[:bytes.LastIndexByte(text, '\n')+1]
	if len(whole) < len(text) {
		if err := os.Truncate(file, int64(len(whole))); err != nil {
			return cli.CannotRun(err)
		}
	}
	for _, r := range readRows(whole) {
		c.rows[int(r.Index)] = r
	}
	if err := os.Remove(filepath.Join(c.o.Out, progressName)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return cli.CannotRun(err) // an earlier sitting's
	}
	return c.openLog()
}

// known keeps of the rows of earlier sittings those of the plans: another opsim may have made others, and those are taken
// out of the log too, so that who looks on counts what is counted here.
func (c *campaign) known() error {
	rows, log := map[int]Row{}, []byte{}
	for _, p := range c.plans {
		r, ok := c.rows[p.Index]
		if !ok || !r.of(p) {
			continue
		}
		line, err := json.Marshal(r)
		if err != nil {
			return err
		}
		rows[p.Index], log = r, append(append(log, line...), '\n')
	}
	others := len(c.rows) - len(rows)
	c.rows, c.result.Before = rows, len(rows)
	if others == 0 {
		return nil
	}
	if err := c.log.Close(); err != nil {
		return cli.CannotRun(err)
	}
	file := filepath.Join(c.o.Out, logName)
	if err := os.WriteFile(file+".new", log, 0o600); err != nil {
		return cli.CannotRun(err)
	}
	if err := os.Rename(file+".new", file); err != nil {
		return cli.CannotRun(err)
	}
	return c.openLog()
}

func (c *campaign) openLog() (err error) {
	c.log, err = os.OpenFile(filepath.Join(c.o.Out, logName), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	return cli.CannotRun(err)
}
