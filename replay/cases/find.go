package cases

import (
	"errors"
	"io/fs"
	"path/filepath"
	"strings"

	"github.com/opreplay/opreplay/internal/cli"
)

// Find loads the cases that PATHS name: folders of cases, or folders somewhere below which there are some. Those
// are called by their paths below it. The order is that of PATHS, and of names in each.
func Find(paths []string) (all []*Case, err error) {
	seen := map[string]bool{}  // folders
	taken := map[string]bool{} // names
	for _, path := range paths {
		dirs, err := below(path)
		if err != nil {
			return nil, err
		}
		for _, dir := range dirs {
			if seen[filepath.Clean(dir)] {
				continue
			}
			seen[filepath.Clean(dir)] = true
			c, err := Load(dir)
			if err != nil {
				return nil, err
			}
			if rel, err := filepath.Rel(path, dir); err == nil && rel != "." {
				c.Name = filepath.ToSlash(rel)
				if len(paths) > 1 { // so that each says where it is from
					c.Name = nameOf(path) + "/" + c.Name
				}
			}
			if taken[c.Name] {
				c.Name = filepath.ToSlash(dir)
			}
			taken[c.Name] = true
			all = append(all, c)
		}
	}
	return all, nil
}

// Is says whether a folder is a case.
func Is(dir string) bool { return isFile(filepath.Join(dir, FileName)) }

// below are the folders of cases in PATH, or PATH if it is one.
func below(path string) (dirs []string, err error) {
	err = filepath.WalkDir(path, func(p string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && p != path && (strings.HasPrefix(entry.Name(), ".") || strings.HasSuffix(entry.Name(), ".optrace")):
			return fs.SkipDir
		case entry.IsDir():
			if Is(p) {
				dirs = append(dirs, p)
				return fs.SkipDir
			}
		}
		return nil
	})
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, cli.Usagef("%s: no such folder", path)
	case err != nil:
		return nil, cli.CannotRun(err)
	case len(dirs) == 0:
		return nil, cli.Usagef("%s: no case in it; a case is a folder with a %s", path, FileName)
	}
	return dirs, nil
}
