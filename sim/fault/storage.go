package fault

import (
	"time"
)

// Storage has every write of a process take that much longer to be committed, while reads stay fast.
//
// On a real cluster: etcd's disk is slow or shared (its fsync takes seconds), so that each proposal waits; others
// that arrive meanwhile are committed with it. A conflict is found when the write is committed, not when it
// arrived.
type Storage struct {
	Commit time.Duration
	Span
}

// Kind implements Fault.
func (s *Storage) Kind() string { return "storage" }

// String implements Fault.
func (s *Storage) String() string {
	l := line{kind: s.Kind()}
	l.raw("commit", s.Commit.String())
	s.print(&l)
	return l.String()
}

func parseStorage(f *fields) (Fault, error) {
	s := &Storage{}
	for _, err := range []error{
		f.duration("commit", f.take("commit"), &s.Commit),
		f.span(&s.Span),
	} {
		if err != nil {
			return nil, err
		}
	}
	if s.Commit == 0 {
		return nil, f.errorAt(f.take("commit"), "storage needs commit: how long each commit takes, such as 2s")
	}
	if s.Commit >= giveUp {
		return nil, f.errorAt(f.take("commit"), "commit of storage is %s; the API server gives up on a call after %s: say answer with code: timeout", s.Commit, giveUp)
	}
	return s, nil
}

type storageRule struct {
	spanRule
	*Storage
}

func (s *Storage) rule(b base) rule { return &storageRule{newSpanRule(b, s.Span), s} }

func (r *storageRule) arrive(c Call, v *Verdict) {
	if r.arrived(c, v.Ticket) && c.Client != "" && writes(c) {
		v.slow = append(v.slow, r)
	}
}

func (r *storageRule) report() []Unmatched { return r.unmatched("commit", r.Commit.String()) }
