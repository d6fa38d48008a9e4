package traces

// FormatError says that something is not a trace, or not one that this package can read or write:
// bad input, in one line. Commands end with exit code 2 on it.
type FormatError struct {
	Path   string // the file or folder
	Detail string // what is wrong, and where in it
	Hint   string // what to do; may be ""
}

// Error is "PATH: DETAIL; HINT".
func (e *FormatError) Error() string {
	s := e.Path + ": " + e.Detail
	if e.Hint != "" {
		s += "; " + e.Hint
	}
	return s
}

// BadInput marks the error as the input's fault, for internal/cli.
func (e *FormatError) BadInput() bool { return true }
