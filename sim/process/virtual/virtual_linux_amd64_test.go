package virtual

import (
	"strings"
	"testing"
	"time"
)

const runs = 20

func TestTimers(t *testing.T) {
	run := func(seed uint64) func(t *testing.T) result {
		return func(t *testing.T) result {
			w := newWorld(t, Options{Seed: seed})
			p := w.start("timers", nil)
			w.run(time.Hour, exited(p))
			return w.result()
		}
	}
	one := same(t, runs, run(1))
	if !strings.Contains(one.out, "slept 10m0s, now 2026-01-01 00:10:00") {
		t.Errorf("got %q", one.out)
	}
	if two := same(t, 3, run(2)); two.hash == one.hash {
		t.Error("another seed gave the same run")
	}
}

func TestClient(t *testing.T) {
	one := same(t, runs, func(t *testing.T) result {
		w := newWorld(t, Options{Seed: 1})
		p := w.start("client", []string{"http://10.0.0.1:80"})
		w.run(time.Hour, exited(p))
		return w.result()
	})
	if !strings.Contains(one.out, "done done done") || !strings.Contains(one.out, "deadline exceeded 1s") || !strings.Contains(one.out, "refused") {
		t.Errorf("got %q", one.out)
	}
}

func victim() {}
