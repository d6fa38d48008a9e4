//go:build unix

package traces

import (
	"errors"
	"os"
	"syscall"
)

// folderLock says that a trace is being written. It goes with the process, however that ends.
type folderLock struct{ folder *os.File }

// lockFolder fails with a *FormatError where another process writes the trace.
func lockFolder(dir string) (*folderLock, error) {
	f, err := os.Open(dir)
	if err != nil {
		return nil, err
	}
	err = syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	if errors.Is(err, syscall.EWOULDBLOCK) {
		_ = f.Close()
		return nil, &FormatError{Path: dir, Detail: "the trace is still being written", Hint: "end the recording first"}
	}
	// A file system without locks is none to refuse to write to.
	return &folderLock{f}, nil
}

func (l *folderLock) release() error { return l.folder.Close() }
