package conformance

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
)

// Op is one operation of a sequence. Path, Body and the values of Header may hold references, see
// [Sequence]; all else is sent as it stands.
type Op struct {
	// ID is the operation's number in its sequence as it was generated; shrinking leaves it alone, so
	// that references go on meaning the same.
	ID int `json:"id"`
	// Area, Verb and Kind are where the operation counts in the table.
	Area string `json:"area"`
	Verb string `json:"verb"`
	Kind string `json:"kind"`
	// Do is Request (the default), Watch or Await.
	Do     Do                `json:"do,omitempty"`
	Method string            `json:"method,omitempty"` // of HTTP; "" is GET
	Path   string            `json:"path"`             // with the query
	Type   string            `json:"type,omitempty"`   // Content-Type
	Accept string            `json:"accept,omitempty"`
	Header map[string]string `json:"header,omitempty"`
	// Body is the request's body as text, JSON for the most part.
	Body string `json:"body,omitempty"`
	// From, if not 0, makes the body out of what that operation was answered, changed by the JSON merge
	// patch Edit.
	From int             `json:"from,omitempty"`
	Edit json.RawMessage `json:"edit,omitempty"`
	// Read is the path of an object that is read first, and of which the body is made as of From; where there is none
	// Body is sent.
	Read string `json:"read,omitempty"`
	// As sends a JSON body as "yaml", "protobuf" or "cbor", or slowly: "slow" is in pieces.
	As string `json:"as,omitempty"`
	// Settle is the path of a collection that is listed first, so that a watch cache that may be behind
	// is not.
	Settle string `json:"settle,omitempty"`
	// Whole has a watch that ends by itself (timeoutSeconds) compared to its end, bookmarks included: several in a row
	// are one, since a server counts minutes from a moment of its own.
	Whole bool `json:"whole,omitempty"`
	// After, if not 0, has Await wait only if that operation was not refused.
	After int `json:"after,omitempty"`
	// Until is what Await waits for: a code, or if Has is set also a text in the answer.
	Until int    `json:"until,omitempty"`
	Has   string `json:"has,omitempty"`
	// Keep leaves what a request has made where it is. Else what is not in the sequence's namespace is
	// deleted when the sequence is over.
	Keep bool `json:"keep,omitempty"`
}

// Do is what an operation does.
type Do string

// The kinds of operations.
const (
	Request Do = ""      // one request, whose answers are compared
	Watch   Do = "watch" // a watch, open until the sequence ends, whose events are compared
	Await   Do = "await" // the request is repeated until it is answered as it should be, up to a limit
)

// Sequence is what both servers are asked. It is all that is needed to ask them again.
//
// In paths and bodies, ${ns} is the namespace of the run, which exists when the first operation is made;
// ${7.metadata.uid} is a field of what operation 7 was answered; ${nest:N} is N times "[", ${fill:N} is N
// times "x". ${now+N} is the server's time N seconds from now. ${hook} is the URL of webhooks ([Hooks]), ${hookCA} what
// they are known by.
type Sequence struct {
	Seed   uint64 `json:"seed"`
	Number int    `json:"number"`
	Name   string `json:"name"` // of the scenario
	Ops    []*Op  `json:"-"`
}

// String is the sequence as text: a line of JSON for the whole and one for each operation.
func (s *Sequence) String() string {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	_ = enc.Encode(s) // plain data into memory
	for _, op := range s.Ops {
		_ = enc.Encode(op)
	}
	return b.String()
}

// Parse reads what String wrote. Empty lines and lines that begin with # are left out.
func Parse(file string, r io.Reader) (*Sequence, error) {
	s := &Sequence{}
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, 64<<20)
	first := true
	for n := 1; lines.Scan(); n++ {
		text := bytes.TrimSpace(lines.Bytes())
		if len(text) == 0 || text[0] == '#' {
			continue
		}
		into := any(s)
		if !first {
			op := &Op{}
			s.Ops = append(s.Ops, op)
			into = op
		}
		first = false
		dec := json.NewDecoder(bytes.NewReader(text))
		dec.DisallowUnknownFields()
		if err := dec.Decode(into); err != nil {
			return nil, fmt.Errorf("%s:%d: %w: want a line of JSON as a failing run prints it", file, n, err)
		}
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	if len(s.Ops) == 0 {
		return nil, fmt.Errorf("%s: no operations: want a line for the sequence and one for each of its operations", file)
	}
	return s, nil
}
