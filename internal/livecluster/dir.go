package livecluster

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

const (
	dirPattern = "opreplay-cluster-*"
	lockName   = "owner.lock"
)

// folder is a cluster's folder and our claim to it, which ends with this process at the latest.
type folder struct {
	path string
	lock *os.File
	temp bool // ours to remove
}

// claimDir claims the folder DIR, or a new temporary one if DIR is empty.
func claimDir(dir string) (*folder, error) {
	if dir == "" {
		removeAbandoned()
		return claimTemp()
	}
	dir, err := filepath.Abs(dir)
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("make the cluster's folder: %w", err)
	}
	lock, err := tryLock(filepath.Join(dir, lockName), os.O_CREATE)
	if err != nil {
		return nil, fmt.Errorf("claim the cluster's folder: %w", err)
	}
	if lock == nil {
		return nil, fmt.Errorf("a cluster runs in %s already: choose another folder", dir)
	}
	return &folder{path: dir, lock: lock}, nil
}

// claimTemp makes a temporary folder. Another process that looks for abandoned folders may see it
// before it is locked and take it away; then there is no harm done yet, and we take another.
func claimTemp() (*folder, error) {
	for range 100 {
		dir, err := os.MkdirTemp("", dirPattern)
		if err != nil {
			return nil, fmt.Errorf("make the cluster's folder: %w", err)
		}
		path := filepath.Join(dir, lockName)
		lock, err := tryLock(path, os.O_CREATE|os.O_EXCL)
		if errors.Is(err, fs.ErrNotExist) || err == nil && lock == nil {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("claim the cluster's folder: %w", err)
		}
		if sameFile(lock, path) {
			return &folder{path: dir, lock: lock, temp: true}, nil
		}
		_ = lock.Close()
	}
	return nil, fmt.Errorf("claim a folder in %s: others took away each that was made", os.TempDir())
}

// removeAbandoned removes the temporary folders whose owner was killed. It does what it can: what is
// another user's, or in use, stays.
func removeAbandoned() {
	dirs, _ := filepath.Glob(filepath.Join(os.TempDir(), dirPattern)) // the pattern is well formed
	for _, dir := range dirs {
		lock, err := tryLock(filepath.Join(dir, lockName), 0)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			_ = os.Remove(dir) // succeeds only if it is empty: the owner died before it could lock
		case err == nil && lock != nil:
			_ = os.RemoveAll(dir)
			_ = lock.Close()
		}
	}
}

// sameFile tells whether PATH still is the open file F.
func sameFile(f *os.File, path string) bool {
	a, err := f.Stat()
	if err != nil {
		return false
	}
	b, err := os.Lstat(path)
	return err == nil && os.SameFile(a, b)
}

// release gives the folder up and removes it if it was temporary.
func (d *folder) release() error {
	var err error
	if d.temp {
		err = os.RemoveAll(d.path)
	}
	return errors.Join(err, d.lock.Close())
}
