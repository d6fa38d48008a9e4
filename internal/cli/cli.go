package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/spf13/cobra"
)

// The exit codes of every command.
const (
	ExitFine      = 0
	ExitFindings  = 1
	ExitUsage     = 2
	ExitCannotRun = 3
)

// ErrFindings ends a command with exit code 1 and without a message: the findings or differences are
// already on standard output.
var ErrFindings = errors.New("findings")

// usageError is bad usage or bad input.
type usageError struct{ err error }

func (e *usageError) Error() string { return e.err.Error() }
func (e *usageError) Unwrap() error { return e.err }

// BadInput marks the error types of other packages that are the user's input's fault rather than ours.
// traces.FormatError is one.
type BadInput interface {
	error
	BadInput() bool
}

// Usagef makes an error of bad usage or bad input: exit code 2. The message names the file or flag, the
// place in it and what to do. It wraps with %w as fmt.Errorf does.
func Usagef(format string, args ...any) error {
	return &usageError{fmt.Errorf(format, args...)}
}

// CannotRun marks an error as the environment's fault: exit code 3, which is also what an unmarked
// error gets.
func CannotRun(err error) error {
	if err == nil {
		return nil
	}
	return &cannotRunError{err}
}

type cannotRunError struct{ err error }

func (e *cannotRunError) Error() string { return e.err.Error() }
func (e *cannotRunError) Unwrap() error { return e.err }

// ExitCode is the exit code that an error returned by a command stands for.
func ExitCode(err error) int {
	var usage *usageError
	var bad BadInput
	var cannot *cannotRunError
	switch {
	case err == nil:
		return ExitFine
	case errors.Is(err, ErrFindings):
		return ExitFindings
	case errors.As(err, &cannot):
		return ExitCannotRun
	case errors.As(err, &usage), errors.As(err, &bad) && bad.BadInput():
		return ExitUsage
	default:
		return ExitCannotRun
	}
}

// Main runs ROOT with a context that ends at SIGINT or SIGTERM, prints the error if there is one, and
// exits the process. A second signal kills the process as usual.
func Main(root *cobra.Command) {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop)
	os.Exit(Run(ctx, root, os.Stderr))
}

// Run runs ROOT and returns the exit code. The error, if any, is one line on STDERR.
func Run(ctx context.Context, root *cobra.Command, stderr io.Writer) int {
	root.SilenceErrors = true
	root.SilenceUsage = true
	wrapArgs(root)
	cmd, err := root.ExecuteContextC(ctx)
	code := ExitCode(err)
	if err != nil && !errors.Is(err, ErrFindings) {
		_, _ = fmt.Fprintf(stderr, "%s: %s\n", root.Name(), oneLine(err.Error()))
		if _, isFlag := errors.AsType[*flagError](err); isFlag {
			_, _ = fmt.Fprintf(stderr, "see '%s --help'\n", cmd.CommandPath())
		}
	}
	return code
}

// flagError is a mistake in flags or arguments, for which the help is of use.
type flagError struct{ usage error }

func (e *flagError) Error() string { return e.usage.Error() }
func (e *flagError) Unwrap() error { return e.usage }

// wrapArgs makes cobra's own complaints about flags and arguments usage errors, for cobra has no type
// for them. A command that only groups others gets a body: cobra would print the help and call a
// mistyped subcommand fine.
func wrapArgs(cmd *cobra.Command) {
	cmd.SetFlagErrorFunc(func(_ *cobra.Command, err error) error {
		return &flagError{&usageError{err}}
	})
	if cmd.HasSubCommands() && !cmd.Runnable() {
		cmd.Args = noSuchCommand
		cmd.RunE = func(c *cobra.Command, _ []string) error { return c.Help() }
	}
	check := cmd.Args
	cmd.Args = func(c *cobra.Command, args []string) error {
		var err error
		if check != nil {
			err = check(c, args)
		}
		if err == nil {
			err = c.ValidateRequiredFlags() // cobra's own call comes later, and its error is bare
		}
		if err != nil {
			return &flagError{&usageError{err}}
		}
		return nil
	}
	for _, sub := range cmd.Commands() {
		wrapArgs(sub)
	}
}

func noSuchCommand(c *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	hint := ""
	c.SuggestionsMinimumDistance = 2 // cobra's own default, which it sets only on its own path
	if near := c.SuggestionsFor(args[0]); len(near) > 0 {
		hint = fmt.Sprintf("; did you mean %q?", near[0])
	}
	return fmt.Errorf("unknown command %q%s", args[0], hint)
}

// oneLine folds an error text onto one line.
func oneLine(s string) string {
	return strings.Join(strings.FieldsFunc(s, func(r rune) bool { return r == '\n' || r == '\r' }), "; ")
}
