package apicall

import (
	"encoding/json"
	"net/http"

	"github.com/opreplay/opreplay/traces"
)

// Recording is one call whose answer is given piece by piece by whoever opened it, at times of its own:
// what Handler does for a handler that runs from beginning to end, for a world in which the answer of a
// call is due later than its effect, and each event of a watch has a time too.
type Recording struct{ a *answer }

// Open begins the record of a call that has arrived. What is written to the Recording's Writer is
// recorded and passed on to W; Finish ends it.
func (t *Tap) Open(w http.ResponseWriter, r *http.Request) *Recording {
	return &Recording{&answer{call: t.begin(r), w: w, rc: http.NewResponseController(w)}}
}

// Request is the call to hand to the API server.
func (r *Recording) Request() *http.Request { return r.a.call.request }

// Writer takes the answer.
func (r *Recording) Writer() http.ResponseWriter { return r.a }

// Target is what the call is about, as its row will have it: the verb and the identity. The name of an
// object that is about to be created comes from the body.
func (r *Recording) Target() traces.Request {
	row := *r.a.call.row
	if row.Name == "" && row.Verb == "create" && row.RequestBody != "" {
		var o struct {
			Metadata struct{ Name string }
		}
		if json.Unmarshal([]byte(row.RequestBody), &o) == nil {
			row.Name = o.Metadata.Name
		}
	}
	return row
}

// Finish ends the record. completed is false when the client gets no whole answer: its connection broke.
func (r *Recording) Finish(completed bool) { r.a.finish(completed) }
