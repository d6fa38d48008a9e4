package process

import (
	"fmt"
	"strings"
	"time"

	"github.com/opreplay/opreplay/internal/oplog"
	"github.com/opreplay/opreplay/traces"
)

// Runner starts processes of a run.
type Runner interface {
	// Start starts one. An error that is a *CommandError is the user's: the command cannot be run.
	Start(Spec) (Process, error)
}

// Process is a started process.
type Process interface {
	// Done is closed when the process has ended and all its output was handed on.
	Done() <-chan struct{}
	// Exit says how it ended; valid once Done is closed.
	Exit() Exit
	// Stop asks the process to end, kills it after GRACE, and returns when Done is closed.
	Stop(grace time.Duration) Exit
	// CPU is the user and system time that the process has used; valid once Done is closed.
	CPU() time.Duration
}

// Spec says what to run.
type Spec struct {
	// Name is the process's name in the trace.
	Name string
	// Command is the program and its arguments. {kubeconfig} in an argument stands for Kubeconfig.
	Command []string
	// Kubeconfig is the path of the kubeconfig that leads to the run's API server.
	Kubeconfig string
	// Home is an existing folder that only this process uses.
	Home string
	// Env are KEY=VALUE pairs added to the fixed environment; the last of a key wins.
	Env []string
	// Output gets each line as it comes, from one goroutine a stream ("stdout", "stderr"). nil drops them.
	Output func(stream, line string)
}

// Placeholder in an argument stands for the kubeconfig's path.
const Placeholder = "{kubeconfig}"

// argv is the command with the placeholder filled in.
func (s Spec) argv() []string {
	out := make([]string, len(s.Command))
	for i, a := range s.Command {
		out[i] = strings.ReplaceAll(a, Placeholder, s.Kubeconfig)
	}
	return out
}

// Exit is how a process ended.
type Exit struct {
	Code int `json:"code"` // exit code; -1 when a signal ended it
	// Signal that ended it, such as "SIGKILL"; "" for none.
	Signal string `json:"signal,omitempty"`
	// Stopped is set when Stop ended it.
	Stopped bool `json:"stopped"`
}

// String says it in words.
func (e Exit) String() string {
	s := fmt.Sprintf("exit code %d", e.Code)
	if e.Signal != "" {
		s = "killed by " + e.Signal
	}
	if e.Stopped {
		s += " (stopped by opsim)"
	}
	return s
}

// CommandError is a command that cannot be run.
type CommandError struct {
	Command string
	Reason  string
}

// Error says what is wrong with it.
func (e *CommandError) Error() string {
	return fmt.Sprintf("operator command %q: %s", e.Command, e.Reason)
}

// BadInput marks the error as the user's.
func (e *CommandError) BadInput() bool { return true }

// LogTo is a Spec.Output that appends each line to the logs table of OUT.
func LogTo(out traces.Appender, process string, now func() time.Time) func(stream, line string) {
	return func(stream, line string) {
		level, message, fields := oplog.Parse(line)
		// Errors of OUT stay with OUT: a Writer that cannot write says so when it is closed.
		_ = out.Append(&traces.Log{
			Head:    traces.Head{TS: now().UnixNano()},
			Process: process, Stream: stream, Level: level, Message: message, Fields: fields,
		})
	}
}

// Split splits a command line into words as a shell would, without being one: single quotes, double quotes
// (with \" and \\), and backslashes outside of quotes. Variables, globs and pipes mean nothing.
func Split(line string) ([]string, error) {
	var words []string
	var word strings.Builder
	var quote rune
	open, escaped := false, false
	for _, r := range line {
		switch {
		case escaped:
			if quote == '"' && r != '"' && r != '\\' {
				word.WriteRune('\\')
			}
			word.WriteRune(r)
			escaped = false
		case r == '\\' && quote != '\'':
			escaped, open = true, true
		case quote != 0 && r == quote:
			quote = 0
		case quote == 0 && (r == '\'' || r == '"'):
			quote, open = r, true
		case quote == 0 && (r == ' ' || r == '\t' || r == '\n'):
			if open {
				words = append(words, word.String())
				word.Reset()
				open = false
			}
		default:
			word.WriteRune(r)
			open = true
		}
	}
	if quote != 0 || escaped {
		return nil, &CommandError{line, "a quote or backslash at its end has no partner"}
	}
	if open {
		words = append(words, word.String())
	}
	if len(words) == 0 || words[0] == "" {
		return nil, &CommandError{line, "empty; want the operator's program and its arguments"}
	}
	return words, nil
}
