package workers_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/opreplay/opreplay/internal/workers"
)

const asWorker = "WORKERS_TEST_SERVES"

func TestMain(m *testing.M) {
	if os.Getenv(asWorker) == "" {
		os.Exit(m.Run())
	}
	err := workers.Serve(os.Stdin, os.Stdout, func(q int) (string, error) {
		switch {
		case q < 0:
			return "", fmt.Errorf("%d is less than nothing", q)
		case q > 100:
			fmt.Fprintln(os.Stderr, "too much for me")
			os.Exit(7)
		}
		return strings.Repeat("x", q), nil
	})
	if err != nil {
		os.Exit(1)
	}
}

func start(ctx context.Context, t *testing.T) *workers.Process[int, string] {
	t.Helper()
	cmd := exec.CommandContext(ctx, os.Args[0])
	cmd.Env = append(os.Environ(), asWorker+"=1")
	p, err := workers.Start[int, string](cmd)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.End)
	return p
}

func TestAnswers(t *testing.T) {
	p := start(t.Context(), t)
	for _, n := range []int{3, 0, 100} {
		if a, err := p.Ask(n); err != nil || a != strings.Repeat("x", n) {
			t.Errorf("asked %d, got %q, %v", n, a, err)
		}
	}
	if _, err := p.Ask(-1); err == nil || err.Error() != "-1 is less than nothing" {
		t.Errorf("the answer's error is %v", err)
	}
	if a, err := p.Ask(1); err != nil || a != "x" {
		t.Errorf("after an error: %q, %v", a, err)
	}
}

func TestEndBeforeItsTimeIsTold(t *testing.T) {
	p := start(t.Context(), t)
	_, err := p.Ask(101)
	if !errors.Is(err, workers.ErrEnded) || !strings.Contains(err.Error(), "too much for me") {
		t.Errorf("error %v", err)
	}
}

func TestProcessEndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	p := start(ctx, t)
	if _, err := p.Ask(1); err != nil {
		t.Fatal(err)
	}
	cancel()
	p.End() // returns
	if _, err := p.Ask(1); err == nil {
		t.Error("it answered after its end")
	}
}
