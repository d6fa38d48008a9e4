package apicall

import (
	"net/http"
	"strconv"
	"sync"
	"time"
)

// attempts knows which calls were answered with "try again", to number the repetitions.
type attempts struct {
	mu sync.Mutex
	m  map[attemptKey]attempt
}

type attemptKey struct{ agent, method, uri string }

type attempt struct {
	n     int32
	until time.Time
}

const (
	maxAttempts = 4096
	// attemptGrace is how long after its Retry-After a call may come and still count as a repetition:
	// client-go waits exactly, then its own rate limiter may hold it back.
	attemptGrace = 30 * time.Second
)

func keyOf(r *http.Request) attemptKey {
	return attemptKey{r.UserAgent(), r.Method, r.URL.RequestURI()}
}

// number is this call's number among its repetitions, from 1.
func (a *attempts) number(r *http.Request, now time.Time) int32 {
	a.mu.Lock()
	defer a.mu.Unlock()
	k := keyOf(r)
	e, ok := a.m[k]
	if !ok {
		return 1
	}
	delete(a.m, k)
	if now.After(e.until) {
		return 1
	}
	return e.n + 1
}

// answered notes an answer that told the client to repeat the call: 429 or 5xx with Retry-After in
// seconds, the rule of client-go (rest/with_retry.go).
func (a *attempts) answered(r *http.Request, n int32, code int, retryAfter string, now time.Time) {
	seconds, err := strconv.Atoi(retryAfter)
	if err != nil || seconds < 0 || (code != http.StatusTooManyRequests && code < 500) {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.m == nil {
		a.m = map[attemptKey]attempt{}
	}
	if len(a.m) >= maxAttempts {
		for k, e := range a.m {
			if now.After(e.until) {
				delete(a.m, k)
			}
		}
		if len(a.m) >= maxAttempts {
			return
		}
	}
	a.m[keyOf(r)] = attempt{n, now.Add(time.Duration(seconds)*time.Second + attemptGrace)}
}
