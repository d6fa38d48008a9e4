package otelcollector

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// limit is how long a batch may take to come through.
const limit = time.Minute

// Collector is a receiver at work, on loopback.
type Collector struct {
	// HTTP is the URL for OTLP/HTTP, such as http://127.0.0.1:4318.
	HTTP string

	t       testing.TB
	program string
	lines   chan string
}

// Start builds the receiver and starts it. The test's end stops it. Where the receiver's modules are not, and can't be
// downloaded, the test is skipped.
func Start(t testing.TB) *Collector {
	t.Helper()
	c := &Collector{t: t, program: build(t), lines: make(chan string, 16)}
	cmd := c.command()
	stdin, err := cmd.StdinPipe() // its end is the receiver's
	if err != nil {
		t.Fatal(err)
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	read := make(chan struct{})
	go func() {
		defer close(read)
		c.read(stdout)
	}()
	t.Cleanup(func() {
		_ = stdin.Close()
		for range c.lines { // what nobody asked for, so that the reader gets to the end
		}
		<-read
		if err := cmd.Wait(); err != nil {
			t.Errorf("the collector's receiver: %v", err)
		}
	})
	var hello struct{ HTTP string }
	if err := json.Unmarshal([]byte(c.Next()), &hello); err != nil {
		t.Fatal(err)
	}
	c.HTTP = hello.HTTP
	return c
}

func (c *Collector) read(r io.Reader) {
	defer close(c.lines)
	for in := bufio.NewReader(r); ; {
		line, err := in.ReadString('\n')
		if err != nil {
			return
		}
		c.lines <- line
	}
}

// Next is the next batch that the receiver handed on, in OTLP's JSON form.
func (c *Collector) Next() string {
	c.t.Helper()
	select {
	case line, ok := <-c.lines:
		if !ok {
			c.t.Fatal("the collector's receiver has ended")
		}
		return line
	case <-time.After(limit):
		c.t.Fatalf("nothing came from the collector's receiver within %v", limit)
	}
	return ""
}

// ReadFile is what the collector's file receiver makes of a file, a batch a line, in OTLP's JSON form.
func (c *Collector) ReadFile(file string) string {
	c.t.Helper()
	out, err := c.command(file).Output()
	if err != nil {
		c.t.Fatal(err)
	}
	return string(out)
}

// command is the receiver with its arguments. It knows not the test's context, which ends before the cleanup that ends
// the receiver in order.
func (c *Collector) command(args ...string) *exec.Cmd {
	cmd := exec.CommandContext(context.Background(), c.program, args...)
	cmd.Stderr = os.Stderr
	return cmd
}

func build(t testing.TB) string {
	t.Helper()
	dir, err := source()
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "receiver")
	switch err := compile(t.Context(), dir, file); {
	case errors.Is(err, errNoModules):
		t.Skipf("SKIPPED: the collector's modules, which go.mod in %s names, are not in Go's module cache and can't be downloaded: %v", dir, err)
	case err != nil:
		t.Fatalf("build the collector's receiver: %v", err)
	}
	return file
}

// errNoModules is why a program can't be built where its modules are not, and can't be had.
var errNoModules = errors.New("modules are missing")

// compile builds the program in the folder DIR.
func compile(ctx context.Context, dir, file string) error {
	text, err := run(ctx, dir, nil, "build", "-o", file, ".")
	if err == nil {
		return nil
	}
	// What the build could not download is still missing where nothing may be downloaded; the words are then Go's own, not
	// a network's (cmd/go/internal/modfetch: errProxyOff). What was downloaded and is not what go.sum says is no want.
	const off = "module lookup disabled by GOPROXY=off"
	missing, offline := run(ctx, dir, []string{"GOPROXY=off", "GONOPROXY=none"}, "list", "-deps", ".")
	if offline != nil && strings.Contains(missing, off) && !strings.Contains(text, "SECURITY ERROR") {
		return fmt.Errorf("%w: %w\n%s", errNoModules, err, text)
	}
	return fmt.Errorf("%w\n%s", err, text)
}

// run runs go in the folder DIR and gives what it prints.
func run(ctx context.Context, dir string, env []string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Dir, cmd.Env = dir, append(append(os.Environ(), "CGO_ENABLED=0", "GOFLAGS=-trimpath", "GOWORK=off"), env...)
	text, err := cmd.CombinedOutput()
	return string(text), err
}

// source is the module's folder, looked for from the current one upwards.
func source() (string, error) {
	wd, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for dir := wd; ; dir = filepath.Dir(dir) {
		at := filepath.Join(dir, "internal", "otelcollector", "receiver")
		if _, err := os.Stat(at); err == nil {
			return at, nil
		}
		if dir == filepath.Dir(dir) {
			return "", fmt.Errorf("%s lies in no checkout of this project, which has the collector's receiver", wd)
		}
	}
}
