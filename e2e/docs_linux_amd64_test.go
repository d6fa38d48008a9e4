package e2e

import (
	"context"
	"errors"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/opreplay/opreplay/internal/clitest"
	"github.com/opreplay/opreplay/internal/livecluster"
)

// page is a page of the documentation, and what its reader has before them.
type page struct {
	path string
	// live is whether the reader's KUBECONFIG leads to a live cluster.
	live bool
	// before are commands that were run before.
	before []string
	// tools are programs that the page uses and that may not be here.
	tools []string
	// files are copied into the reader's folder from the checkout, or from the built programs where they begin with "bin/".
	files map[string]string
	// texts are files of which this is the content. BIN in one is the folder of the built programs.
	texts map[string]string
	// prepare does what else is to be there, and names what is written otherwise in this test, such as a port.
	prepare func(t *testing.T, dir string) (words map[string]string)
	// commands are those that are not simply run to exit code 0, as the page has them, without the comment.
	commands map[string]how
}

// how a command is run.
type how struct {
	code int    // its exit code
	not  string // why it is not run
	as   string // what is run in its place
	// until is what it prints, or with a "file " before it the file that it makes, once it is at work; then it is ended by
	// ^C, when as many further commands have been run beside it as beside says.
	until  string
	beside int
}

// Every command of the documentation does what its page says, from top to bottom: its exit code is 0, or what the table of
// pages says, and what the page shows of its output is there (clitest.Prints).
func TestDocumentation(t *testing.T) {
	cluster := livecluster.Start(t, livecluster.Options{})
	kubectl, err := cluster.Kubectl()
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range documented(t) {
		t.Run(p.path, func(t *testing.T) {
			for _, tool := range p.tools {
				if _, err := exec.LookPath(tool); err != nil {
					t.Skipf("SKIPPED: %s uses %s, which is not on the PATH", p.path, tool)
				}
			}
			kubeconfig := ""
			if p.live {
				kubeconfig = cluster.KubeconfigFile()
			}
			newReader(t, p, kubectl, kubeconfig).follow()
		})
	}
}

// documented are the pages of the table, which must be all that have commands.
func documented(t *testing.T) []page {
	t.Helper()
	have := map[string]bool{}
	for _, p := range pages {
		have[filepath.FromSlash(p.path)] = true
	}
	for _, pattern := range []string{"*.md", "docs/*.md", "docs/findings/*.md", "notebooks/*.md", "examples/operators/*.md", "deploy/*.md"} {
		files, err := filepath.Glob(filepath.Join("..", pattern))
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range files {
			path, _ := filepath.Rel("..", file)
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			if hasCommands.Match(text) && !have[path] {
				t.Errorf("%s has commands and is not in the table of pages", path)
			}
		}
	}
	return pages
}

// hasCommands finds blocks of commands, those too that are not marked so.
var hasCommands = regexp.MustCompile("(?m)^```(sh|console)$|^```[a-z]*\n([$] |(bin/)?(opsim|oprec) |make |go |sudo |kubectl |curl )")

// reader is somebody who does what a page says, in a folder of their own.
type reader struct {
	t     *testing.T
	page  page
	dir   string
	env   map[string]string
	words map[string]string // what is called otherwise here than in the page
	made  map[string]string // folders with a number in their name, by the name before it
	busy  []*atWork
}

// atWork is a command that runs until ^C.
type atWork struct {
	step   clitest.Step
	how    how
	cmd    *exec.Cmd
	screen *screen
	done   chan error
	left   int               // commands to be run beside it
	env    map[string]string // its reader's before it, and again after it
}

func newReader(t *testing.T, p page, kubectl, kubeconfig string) *reader {
	t.Helper()
	r := &reader{t: t, page: p, dir: t.TempDir(), words: map[string]string{}, made: map[string]string{}}
	r.env = map[string]string{
		"PATH": strings.Join([]string{bin, filepath.Dir(kubectl), os.Getenv("PATH")}, string(os.PathListSeparator)), "HOME": r.dir, "TMPDIR": filepath.Join(r.dir, "tmp"), "KUBECONFIG": kubeconfig,
		// The Go tool's, which lie in the true home.
		"GOCACHE": goEnv(t, "GOCACHE"), "GOMODCACHE": goEnv(t, "GOMODCACHE"), "GOFLAGS": "-trimpath", "CGO_ENABLED": "0",
	}
	root, err := filepath.Abs("..")
	if err != nil {
		t.Fatal(err)
	}
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	must(os.Mkdir(r.env["TMPDIR"], 0o700))
	must(os.Symlink(bin, filepath.Join(r.dir, "bin")))
	for _, name := range []string{"Makefile", "examples", "traces"} {
		must(os.Symlink(filepath.Join(root, name), filepath.Join(r.dir, name)))
	}
	for name, from := range p.files {
		if rest, built := strings.CutPrefix(from, "bin/"); built {
			from = filepath.Join(bin, rest)
		} else {
			from = filepath.Join(root, from)
		}
		must(copyTo(from, filepath.Join(r.dir, name)))
	}
	for name, text := range p.texts {
		must(os.MkdirAll(filepath.Dir(filepath.Join(r.dir, name)), 0o700))
		must(os.WriteFile(filepath.Join(r.dir, name), []byte(strings.ReplaceAll(text, "BIN", bin)), 0o700))
	}
	for _, command := range p.before {
		r.step(clitest.Step{Command: command}, how{})
	}
	if p.prepare != nil {
		maps.Copy(r.words, p.prepare(t, r.dir))
	}
	return r
}

func goEnv(t *testing.T, name string) string {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "go", "env", name).Output()
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(out))
}

// copyTo copies a file or a folder.
func copyTo(from, to string) error {
	info, err := os.Stat(from)
	if err != nil {
		return err
	}
	if info.IsDir() {
		return os.CopyFS(to, os.DirFS(from))
	}
	text, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	return os.WriteFile(to, text, info.Mode())
}

// follow does all that the page says.
func (r *reader) follow() {
	text, err := os.ReadFile(filepath.Join("..", filepath.FromSlash(r.page.path)))
	if err != nil {
		r.t.Fatal(err)
	}
	steps, err := clitest.Steps(string(text))
	if err != nil {
		r.t.Fatalf("%s: %v", r.page.path, err)
	}
	unknown := maps.Clone(r.page.commands)
	for _, s := range steps {
		name := withoutComment(s.Command)
		h := r.page.commands[name]
		delete(unknown, name)
		if h.not != "" {
			r.notRun(s, h)
			continue
		}
		r.step(s, h)
		if r.t.Failed() {
			break // what follows rests on it
		}
	}
	for range slices.Clone(r.busy) {
		r.end(r.busy[0])
	}
	if len(unknown) > 0 && !r.t.Failed() {
		r.t.Errorf("%s has not: %q", r.page.path, slices.Sorted(maps.Keys(unknown)))
	}
}

// withoutComment is a command without the comment after it, which stands apart from it.
func withoutComment(command string) string {
	command, _, _ = strings.Cut(command, "   #")
	return strings.TrimSpace(command)
}

// notRun looks at least whether a target of make is there.
func (r *reader) notRun(s clitest.Step, h how) {
	r.t.Logf("line %d: %s: not run: %s", s.Line, s.Command, h.not)
	words := strings.Fields(s.Command)
	if words[0] != "make" {
		return
	}
	makefile, err := os.ReadFile("../Makefile")
	if err != nil {
		r.t.Fatal(err)
	}
	if !strings.Contains(string(makefile), "\n"+words[1]+":") {
		r.t.Errorf("line %d: %s: the Makefile has no target %s", s.Line, s.Command, words[1])
	}
}

// step runs a command, or starts what runs until ^C.
func (r *reader) step(s clitest.Step, h how) {
	began := time.Now()
	w := r.start(s, h)
	if h.until != "" {
		r.await(w)
		w.env, r.env = r.env, maps.Clone(r.env)
		r.export(r.printed(w))
		w.left = h.beside
		r.busy = append(r.busy, w)
		if h.beside == 0 {
			r.end(w)
		}
		return
	}
	r.ended(w)
	r.t.Logf("line %d: %s: %.1f s", s.Line, s.Command, time.Since(began).Seconds())
	for _, b := range slices.Clone(r.busy) {
		if b.left--; b.left == 0 {
			r.end(b)
		}
	}
}

// named is a command as it is here.
func (r *reader) named(command string) string {
	command = strings.ReplaceAll(command, "go run ./examples/operators/play ", "play ") // which is built already
	for _, from := range slices.Sorted(maps.Keys(r.words)) {
		command = strings.ReplaceAll(command, from, r.words[from])
	}
	return temporary.ReplaceAllStringFunc(command, func(name string) string {
		if here, ok := r.made[temporary.FindStringSubmatch(name)[1]]; ok {
			return here
		}
		return name
	})
}

// temporary is a folder with a number made up.
var temporary = regexp.MustCompile(`(/tmp/opsim-[a-z]+)-\d+`)

// learn remembers the folders that a command's output names.
func (r *reader) learn(text string) {
	for _, m := range temporary.FindAllStringSubmatch(text, -1) {
		r.made[m[1]] = strings.Replace(m[0], "/tmp", r.env["TMPDIR"], 1)
	}
}

// export does what a command at work tells its reader to do in another shell.
func (r *reader) export(text string) {
	for _, m := range exported.FindAllStringSubmatch(text, -1) {
		r.env[m[1]] = strings.Replace(m[2], "/tmp", r.env["TMPDIR"], 1)
	}
}

var exported = regexp.MustCompile(`(?m)^ +export ([A-Z_]+)=(.*)$`)

func (r *reader) start(s clitest.Step, h how) *atWork {
	r.t.Helper()
	command := s.Command
	if h.as != "" {
		command = h.as
	}
	args := []string{"-c", r.named(command)}
	switch {
	case strings.HasPrefix(command, "#!"):
		if err := os.WriteFile(filepath.Join(r.dir, "script"), []byte(command), 0o700); err != nil {
			r.t.Fatal(err)
		}
		args[1] = "./script"
	case h.until != "":
		args[1] = "exec " + args[1] // a shell that is interrupted would say so
	}
	// Not the test's context: it ends before the cleanup, which is to end the command.
	w := &atWork{step: s, how: h, cmd: exec.CommandContext(context.Background(), "sh", args...), screen: &screen{}, done: make(chan error, 1)}
	w.cmd.Dir, w.cmd.Stdout, w.cmd.Stderr = r.dir, w.screen, w.screen
	// What a command leaves running may have its output still: its end is not waited for.
	w.cmd.WaitDelay = 10 * time.Second
	for name, value := range r.env {
		w.cmd.Env = append(w.cmd.Env, name+"="+value)
	}
	// As a terminal has it: ^C is for all that the command started.
	w.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := w.cmd.Start(); err != nil {
		r.t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() {
		err := w.cmd.Wait()
		w.done <- err
		close(ended)
	}()
	r.t.Cleanup(func() {
		select {
		case <-ended:
		default:
			_ = syscall.Kill(-w.cmd.Process.Pid, syscall.SIGKILL)
			<-ended
		}
	})
	return w
}

// await waits until a command is at work.
func (r *reader) await(w *atWork) {
	r.t.Helper()
	is := func() bool { return strings.Contains(w.screen.text(), w.how.until) }
	if file, ok := strings.CutPrefix(w.how.until, "file "); ok {
		is = func() bool { _, err := os.Stat(filepath.Join(r.dir, file)); return err == nil }
	}
	late := time.After(limit)
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for !is() {
		select {
		case <-tick.C:
		case err := <-w.done:
			r.t.Fatalf("line %d: %s: ended before %q: %v\n%s", w.step.Line, w.cmd, w.how.until, err, w.screen.text())
		case <-late:
			r.t.Fatalf("line %d: %s: no %q within %v\n%s", w.step.Line, w.cmd, w.how.until, limit, w.screen.text())
		}
	}
}

// end presses ^C.
func (r *reader) end(w *atWork) {
	r.busy = slices.DeleteFunc(r.busy, func(b *atWork) bool { return b == w })
	r.env = w.env
	if err := syscall.Kill(-w.cmd.Process.Pid, syscall.SIGINT); err != nil {
		r.t.Errorf("line %d: %s has ended by itself: %v\n%s", w.step.Line, w.cmd, err, w.screen.text())
	}
	r.ended(w)
}

// ended waits for a command's end and holds it against the page.
func (r *reader) ended(w *atWork) {
	r.t.Helper()
	var err error
	select {
	case err = <-w.done:
	case <-time.After(2 * limit):
		r.t.Fatalf("line %d: %s: had not ended after %v\n%s", w.step.Line, w.cmd, 2*limit, w.screen.text())
	}
	if _, isExit := errors.AsType[*exec.ExitError](err); err != nil && !isExit {
		r.t.Fatalf("line %d: %s: %v\n%s", w.step.Line, w.cmd, err, w.screen.text())
	}
	text := r.printed(w)
	if code := w.cmd.ProcessState.ExitCode(); code != w.how.code {
		r.t.Errorf("line %d: %s: exit code %d, want %d\n%s", w.step.Line, w.cmd, code, w.how.code, text)
		return
	}
	r.learn(text)
	for _, shown := range w.step.Shown {
		if err := clitest.Prints(text, shown); err != nil {
			r.t.Errorf("line %d: %s: %v", w.step.Line, w.step.Command, err)
		}
	}
}

// printed is what a command has printed, in the page's terms.
func (r *reader) printed(w *atWork) string {
	return strings.NewReplacer(r.env["TMPDIR"], "/tmp", r.dir, "/home/me").Replace(w.screen.text())
}

// screen is what a command prints, on either stream.
type screen struct {
	mu  sync.Mutex
	all strings.Builder
}

func (s *screen) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.all.Write(p)
}

func (s *screen) text() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.all.String()
}
