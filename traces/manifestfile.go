package traces

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// ManifestName is the file that makes a folder a trace.
const ManifestName = "manifest.json"

// maxManifestBytes is far above any manifest, and keeps a wrong file from being read into memory.
const maxManifestBytes = 256 << 20

// writeManifest replaces the manifest in one step: a reader sees the old one or the new one.
func writeManifest(dir string, m *Manifest, create func(string) (output, error)) error {
	text, err := json.MarshalIndent(m, "", "  ")
	if err != nil {
		return err
	}
	return replaceFile(filepath.Join(dir, ManifestName), append(text, '\n'), create)
}

// readManifest reads and checks a manifest, and gives the SHA-256 of its bytes in hex. Errors are
// *FormatError.
func readManifest(dir string) (*Manifest, string, error) {
	text, err := manifestText(dir)
	if err != nil {
		return nil, "", err
	}
	m, bad := parseManifest(text)
	if bad != nil {
		bad.Path = filepath.Join(dir, ManifestName)
		return nil, "", bad
	}
	sum := sha256.Sum256(text)
	return m, hex.EncodeToString(sum[:]), nil
}

func manifestText(dir string) ([]byte, error) {
	path := filepath.Join(dir, ManifestName)
	info, err := os.Stat(dir)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, &FormatError{Path: dir, Detail: "no such folder", Hint: "check the path"}
	case err != nil:
		return nil, &FormatError{Path: dir, Detail: cause(err), Hint: "check the path and your permissions"}
	case !info.IsDir():
		return nil, &FormatError{Path: dir, Detail: "not a trace: it is a file", Hint: "a trace is a folder, NAME.optrace, with a " + ManifestName}
	}
	info, err = os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, &FormatError{Path: dir, Detail: "not a trace: it has no " + ManifestName, Hint: "name the folder that oprec or opsim wrote"}
	case err == nil && info.Size() > maxManifestBytes:
		return nil, &FormatError{Path: path, Detail: fmt.Sprintf("%d bytes are too many for a manifest", info.Size()), Hint: "is this a trace?"}
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, &FormatError{Path: path, Detail: cause(err), Hint: "check your permissions"}
	}
	return text, nil
}

// parseManifest reads a manifest's text. The version is looked at first: a newer major may have
// another form, and is to be refused for that and for nothing else.
func parseManifest(text []byte) (*Manifest, *FormatError) {
	var version struct {
		Format *Format `json:"format"`
	}
	if err := json.Unmarshal(text, &version); err != nil {
		return nil, badJSON(text, err)
	}
	switch f := version.Format; {
	case f == nil || f.Major < 1 || f.Minor < 0:
		return nil, &FormatError{Detail: "it names no format version", Hint: "is this a trace's manifest?"}
	case f.Major > FormatMajor:
		return nil, &FormatError{
			Detail: fmt.Sprintf("the trace has format version %d.%d, and this program reads version %d", f.Major, f.Minor, FormatMajor),
			Hint:   "use a newer release",
		}
	}
	var m Manifest
	if err := json.Unmarshal(text, &m); err != nil {
		return nil, badJSON(text, err)
	}
	if err := checkFiles(m.Files); err != nil {
		return nil, err
	}
	return &m, nil
}

// checkFiles refuses what no Writer writes, names that leave the folder above all.
func checkFiles(files []File) *FormatError {
	names := map[string]bool{}
	for i, f := range files {
		bad := func(detail string) *FormatError {
			return &FormatError{Detail: fmt.Sprintf("files[%d]: %s", i, detail), Hint: "the manifest is damaged or not one of ours"}
		}
		switch {
		case f.Name == "" || f.Name == "." || f.Name == ".." || filepath.Base(f.Name) != f.Name || !filepath.IsLocal(f.Name):
			return bad(fmt.Sprintf("%q is not a plain file name", f.Name))
		case names[f.Name]:
			return bad(fmt.Sprintf("%s is listed twice", f.Name))
		case f.Rows < 0 || f.Bytes < 0 || f.FirstSeq < 0 || f.LastSeq < f.FirstSeq:
			return bad(fmt.Sprintf("%s has impossible numbers", f.Name))
		case len(f.SHA256) != 64:
			return bad(fmt.Sprintf("%s has no SHA-256", f.Name))
		}
		names[f.Name] = true
	}
	return nil
}

// badJSON says where in the text the JSON went wrong.
func badJSON(text []byte, err error) *FormatError {
	offset := int64(len(text))
	detail := err.Error()
	var syntax *json.SyntaxError
	var typ *json.UnmarshalTypeError
	switch {
	case errors.As(err, &syntax):
		offset = syntax.Offset
	case errors.As(err, &typ):
		offset = typ.Offset
		detail = fmt.Sprintf("%s must be a %s, not a %s", typ.Field, typ.Type, typ.Value)
	}
	before := text[:max(0, min(offset-1, int64(len(text))))]
	line := bytes.Count(before, []byte("\n")) + 1
	col := len(before) - (bytes.LastIndexByte(before, '\n') + 1) + 1
	return &FormatError{Detail: fmt.Sprintf("line %d, column %d: bad JSON: %s", line, col, detail), Hint: "the manifest is damaged"}
}
