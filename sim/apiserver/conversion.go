package apiserver

import (
	"crypto/tls"
	"fmt"
	"net/http"
	"time"

	webhookutil "k8s.io/apiserver/pkg/util/webhook"
)

// conversionLimit is how long a conversion webhook has (setGlobalDefaults in k8s.io/apiserver/pkg/util/webhook).
const conversionLimit = 30 * time.Second

// newConversion has conversion webhooks called by Webhooks.Convert.
func newConversion(o Options) webhookutil.AuthenticationInfoResolverWrapper {
	call := o.Webhooks.Convert
	if call == nil {
		call = func(r *http.Request, _ *tls.Config) (*http.Response, error) {
			return nil, fmt.Errorf("dial tcp: lookup %s: no such host", r.URL.Hostname())
		}
	}
	return func(webhookutil.AuthenticationInfoResolver) webhookutil.AuthenticationInfoResolver {
		return caller{call: call, now: o.Clock, limit: conversionLimit}
	}
}

// converting has settle know while a conversion webhook is called: whoever settles may be the one who waits
// for it.
func (c *customs) converting(wrap webhookutil.AuthenticationInfoResolverWrapper) webhookutil.AuthenticationInfoResolverWrapper {
	return func(r webhookutil.AuthenticationInfoResolver) webhookutil.AuthenticationInfoResolver {
		to := wrap(r).(caller)
		call := to.call
		to.call = func(r *http.Request, t *tls.Config) (*http.Response, error) {
			c.away(1)
			defer c.away(-1)
			return call(r, t)
		}
		return to
	}
}

func (c *customs) away(n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.out += n
	c.turn.Broadcast()
}
