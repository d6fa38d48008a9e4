package replay

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"

	"github.com/opreplay/opreplay/traces"
)

// traceHash is the SHA-256 over names and contents of a trace's tables.
func traceHash(dir string) (string, error) {
	t, err := traces.Open(dir)
	if err != nil {
		return "", err
	}
	defer func() { _ = t.Close() }()
	h := sha256.New()
	for _, f := range t.Manifest().Files {
		_, _ = fmt.Fprintf(h, "%s %s\n", f.Name, f.SHA256)
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}
