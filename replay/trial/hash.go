package trial

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"

	"github.com/opreplay/opreplay/traces"
)

// hash is over what the rows of a run say: the same for runs that are the same.
func hash(rows []traces.Record) string {
	h := sha256.New()
	for _, row := range rows {
		head := row.Header()
		_, _ = fmt.Fprintf(h, "%d %d ", head.Seq, head.TS)
		switch r := row.(type) {
		case *traces.WatchEvent:
			_, _ = fmt.Fprintln(h, r.Stream, r.Process, r.Type, r.Identity, r.ObjectHash)
		case *traces.Request:
			_, _ = fmt.Fprintln(h, r.Start, r.StartSeq, r.Process, r.Verb, r.Identity, r.Subresource, r.Path, r.Query, r.Code, r.RequestBody, r.ResponseHash)
		case *traces.Log:
			_, _ = fmt.Fprintln(h, r.Process, r.Stream, r.Message, r.Fields)
		case *traces.Decision:
			_, _ = fmt.Fprintln(h, r.Step, r.Kind, r.Subject, r.Choice, r.Of, r.Rule)
		default:
			_, _ = fmt.Fprintf(h, "%v\n", row)
		}
	}
	return hex.EncodeToString(h.Sum(nil))
}
