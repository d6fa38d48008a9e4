package probes

import (
	"encoding/binary"
	"fmt"
	"strings"
	"time"
)

// Kind is what an operator did.
type Kind uint8

// The kinds of events.
const (
	Add            Kind = iota + 1 // a key was put into a queue
	AddAfter                       // a key was put into a queue for later: After
	AddRateLimited                 // a key was put into a queue again, after a wait that grows with failures
	Start                          // a reconcile begins
	Return                         // a reconciler's result: Failed, After
	Done                           // a worker is done with a key
	Request                        // a call to an API server begins
	Response                       // a call's answer begins
)

var kindNames = [...]string{
	Add: "add", AddAfter: "addAfter", AddRateLimited: "addRateLimited", Start: "start", Return: "return",
	Done: "done", Request: "request", Response: "response",
}

func (k Kind) String() string {
	if int(k) < len(kindNames) && kindNames[k] != "" {
		return kindNames[k]
	}
	return fmt.Sprintf("Kind(%d)", uint8(k))
}

// Event is one thing that an operator did.
type Event struct {
	Kind     Kind
	Time     time.Duration // on CLOCK_MONOTONIC
	PID, TID int
	// GoID is the goroutine's number; 0 where its Go release is not known. Goroutine is the address of its
	// descriptor, which tells goroutines apart that live at one time.
	GoID, Goroutine uint64

	// Namespace and Name are the key, of all kinds but Return, Request and Response. What a queue of strings holds
	// is taken apart as client-go puts it together; what has another form is a Name.
	Namespace, Name string
	// Controller is the controller's name where a reconcile of controller-runtime's starts.
	Controller string
	// Queue is the address of the queue, of Add and its kin and of Done: it tells queues apart.
	Queue  uint64
	After  time.Duration // of AddAfter and Return
	Failed bool          // of Return: the reconciler returned an error

	Method, Path, Query string // of Request
	// Body is what the request carries, where it was found in memory; BodyLength is what it says to carry,
	// -1 where it does not say. Where the two differ the body could not be read.
	Body       []byte
	BodyLength int64
	Status     int // of Response: the HTTP status, 0 where there was an error and no answer

	// Stack is the addresses of the callers, leaf first, with the function's own first, and Top the words for
	// symbols.Process.Stack. They are read where a line of code is wanted: of Add and its kin, and of Request.
	Stack []uint64
	Top   [2]uint64

	// Truncated says that a text was longer than a probe reads.
	Truncated bool
}

// Layout of struct event and struct body in kernel/operator.bpf.c.
const (
	recordEvent = 1
	recordBody  = 2

	maxText   = 511
	textBytes = 512
	lenAt     = 96
	stackAt   = 108
	textAt    = 112
	eventHead = textAt + 3*textBytes
	bodyHead  = 24
)

// rawEvent is a record of the ring buffer as it came, by its words.
type rawEvent []byte

func (r rawEvent) u32(off int) uint32 { return binary.LittleEndian.Uint32(r[off:]) }
func (r rawEvent) u64(off int) uint64 { return binary.LittleEndian.Uint64(r[off:]) }

func (r rawEvent) text(i int) (s string, whole bool) {
	n := r.u32(lenAt + 4*i)
	whole = n <= maxText
	return string(r[textAt+i*textBytes:][:min(n, maxText)]), whole
}

// event reads a record of type EVENT, seen at the site S.
func (r rawEvent) event(s site) (*Event, error) {
	if len(r) < eventHead || len(r) < eventHead+int(r.u32(stackAt)) {
		return nil, fmt.Errorf("an event of %d bytes", len(r))
	}
	e := &Event{
		Kind:      s.kind,
		Time:      time.Duration(r.u64(8)),
		PID:       int(r.u32(16)),
		TID:       int(r.u32(20)),
		GoID:      r.u64(24),
		Goroutine: r.u64(32),
		Top:       [2]uint64{r.u64(40)},
	}
	for stack := r[eventHead:][:r.u32(stackAt)]; len(stack) >= 8; stack = stack[8:] {
		e.Stack = append(e.Stack, stack.u64(0))
	}
	var texts [3]string
	for i := range texts {
		var whole bool
		texts[i], whole = r.text(i)
		e.Truncated = e.Truncated || !whole
	}
	switch s.kind {
	case Request:
		e.Method, e.Path, e.Query = texts[0], texts[1], texts[2]
		if e.Method == "" {
			e.Method = "GET" // net/http: "For client requests, an empty string means GET"
		}
		e.BodyLength = int64(r.u64(72))
	case Return:
		e.After, e.Failed = time.Duration(r.u64(48)), r.u64(56) != 0
	case Response:
		e.Status = int(r.u64(64))
	default:
		e.Namespace, e.Name, e.Controller = texts[0], texts[1], texts[2]
		if s.strings == 1 {
			e.Namespace, e.Name = splitKey(texts[0])
		}
		if s.kind != Start {
			e.Queue = r.u64(88)
		}
		s.schedule(e, r.u64(48), r.u64(56))
	}
	return e, nil
}

// schedule reads when an addition is for.
func (s site) schedule(e *Event, first, second uint64) {
	switch {
	case s.options: // priorityqueue.AddOpts: After, RateLimited
		if byte(second) != 0 {
			e.Kind = AddRateLimited
		} else if first != 0 {
			e.Kind, e.After = AddAfter, time.Duration(first)
		}
	case e.Kind == AddAfter:
		e.After = time.Duration(first)
	}
}

// splitKey takes NAMESPACE/NAME apart, the form of a key in a queue of strings (client-go's tools/cache,
// MetaNamespaceKeyFunc).
func splitKey(key string) (namespace, name string) {
	namespace, name, ok := strings.Cut(key, "/")
	if !ok || strings.Contains(name, "/") {
		return "", key
	}
	return namespace, name
}
