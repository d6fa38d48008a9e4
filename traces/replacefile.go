package traces

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
)

// replaceFile puts CONTENT in the place of PATH in one step: whoever opens it, also after a crash at any moment, has
// the old content or the new one. What an earlier attempt left beside it is removed.
func replaceFile(path string, content []byte, create func(string) (output, error)) error {
	dir, name := filepath.Split(path)
	tmp := filepath.Join(dir, tempName(name))
	if err := os.Remove(tmp); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	f, err := create(tmp)
	if err != nil {
		return err
	}
	_, err = f.Write(content)
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
		return err
	}
	if err := os.Rename(tmp, path); err != nil {
		return err
	}
	return syncFolder(filepath.Dir(path))
}
