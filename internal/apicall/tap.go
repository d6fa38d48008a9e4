package apicall

import (
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apiserver/pkg/endpoints/request"

	"github.com/opreplay/opreplay/traces"
)

// DefaultLimit is the largest body or watch frame that is recorded, in bytes. The API server's own limit
// for a request is 3 MiB.
const DefaultLimit = 16 << 20

// Options of a Tap. The zero value records everything as it is.
type Options struct {
	// Now is the clock; nil means time.Now.
	Now func() time.Time
	// Process names the calling process for the rows; nil takes the User-Agent's part before "/".
	Process func(*http.Request) string
	// User is the calling user; nil means not known.
	User func(*http.Request) string
	// Redact replaces what must not be recorded; nil means nothing is replaced.
	Redact Redactor
	// Limit is the largest body or watch frame that is recorded, in bytes; 0 means DefaultLimit. Larger
	// ones pass and are counted as lost.
	Limit int
	// Failed is told, once, that the trace takes no more rows. Calls go on passing. It may be nil.
	Failed func(error)
}

// Tap records the calls that pass through its handlers.
type Tap struct {
	out     traces.Appender
	o       Options
	info    request.RequestInfoFactory
	streams atomic.Int64
	tries   attempts
	lost    losses
	failed  sync.Once
}

// New is a Tap that appends to OUT.
func New(out traces.Appender, o Options) *Tap {
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Process == nil {
		o.Process = agentName
	}
	if o.User == nil {
		o.User = func(*http.Request) string { return "" }
	}
	if o.Limit <= 0 {
		o.Limit = DefaultLimit
	}
	return &Tap{out: out, o: o, info: request.RequestInfoFactory{
		APIPrefixes:          sets.NewString("api", "apis"),
		GrouplessAPIPrefixes: sets.NewString("api"),
	}}
}

// Handler passes every call on to NEXT and records it.
func (t *Tap) Handler(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c := t.begin(r)
		a := &answer{call: c, w: w, rc: http.NewResponseController(w)}
		completed := false
		// Deferred: a reverse proxy panics with http.ErrAbortHandler when either side goes away.
		defer func() { a.finish(completed) }()
		next.ServeHTTP(a, c.request)
		completed = true
	})
}

// Losses are what passed and could not be recorded, by source and reason. The Tap may still be in use.
func (t *Tap) Losses() []traces.Loss { return t.lost.list() }

func (t *Tap) append(r traces.Record) {
	if err := t.out.Append(r); err != nil {
		t.lose("trace", "rows that the trace did not take", 1)
		t.failed.Do(func() {
			if t.o.Failed != nil {
				t.o.Failed(err)
			}
		})
	}
}

func (t *Tap) lose(source, reason string, n int64) { t.lost.add(source, reason, n, t.o.Now()) }
