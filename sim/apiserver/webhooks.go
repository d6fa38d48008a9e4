package apiserver

import (
	"context"
	"crypto/tls"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/admission/plugin/webhook/mutating"
	"k8s.io/apiserver/pkg/admission/plugin/webhook/validating"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	webhookutil "k8s.io/apiserver/pkg/util/webhook"
	"k8s.io/client-go/kubernetes"
	restclient "k8s.io/client-go/rest"

	"github.com/opreplay/opreplay/sim/store"
)

// Webhooks is how admission webhooks are called: the API server neither dials nor waits by itself.
type Webhooks struct {
	// Serves reports whether HOST:PORT can be called on behalf of a request, given its context; others
	// are left out as if nobody had configured them. HOST is a Service's name, NAME.NAMESPACE.svc, or
	// that of the webhook's URL. nil: no webhook is called.
	Serves func(ctx context.Context, host string, port int) bool
	// Call makes one call. It is made from one goroutine at a time for each request. The URL's query has
	// the webhook's time limit as timeout=DURATION; what passes it is an error. t is nil for plain HTTP.
	Call func(r *http.Request, t *tls.Config) (*http.Response, error)
	// Convert makes one call of a conversion webhook, as Call does of others, with the same timeout=DURATION. The
	// API server does not say on behalf of which request: it is that of the handler that runs. nil: none can be
	// reached, and what needs one fails.
	Convert func(r *http.Request, t *tls.Config) (*http.Response, error)
}

// webhooks are the two admission plugins of the real API server, with their configurations taken from
// the store at each request.
type webhooks struct {
	o      Webhooks
	view   *hookView
	mutate *mutating.Plugin
	valid  *validating.Plugin
}

func newWebhooks(o Options, world *store.Store, view *hookView, client kubernetes.Interface, allow authorizer.UnconditionalAuthorizer) (*webhooks, error) {
	w := &webhooks{o: o.Webhooks, view: view}
	var err error
	if w.mutate, err = mutating.NewMutatingWebhook(nil); err != nil {
		return nil, err
	}
	if w.valid, err = validating.NewValidatingAdmissionWebhook(nil); err != nil {
		return nil, err
	}
	informers := newStoreInformers(world, w.view)
	plain := caller{call: o.Webhooks.Call, now: o.Clock}
	marking := plain
	marking.mutates = true
	resolve := func(c caller) webhookutil.AuthenticationInfoResolverWrapper {
		return func(webhookutil.AuthenticationInfoResolver) webhookutil.AuthenticationInfoResolver { return c }
	}
	w.mutate.SetExternalKubeClientSet(client)
	w.mutate.SetExternalKubeInformerFactory(informers)
	w.mutate.SetAuthenticationInfoResolverWrapper(resolve(marking))
	w.mutate.SetUnconditionalAuthorizer(allow)
	w.valid.SetExternalKubeClientSet(client)
	w.valid.SetExternalKubeInformerFactory(informers)
	w.valid.SetAuthenticationInfoResolverWrapper(resolve(plain))
	w.valid.SetUnconditionalAuthorizer(allow)
	if err := w.mutate.ValidateInitialization(); err != nil {
		return nil, err
	}
	return w, w.valid.ValidateInitialization()
}

// mutatingHooks is the plugin for the first half of the chain.
type mutatingHooks struct {
	admission.Interface
	w *webhooks
}

// Admit implements admission.MutationInterface.
func (m mutatingHooks) Admit(ctx context.Context, a admission.Attributes, o admission.ObjectInterfaces) error {
	configs, err := m.w.view.mutating(m.w.reachable(ctx))
	if err != nil || len(configs) == 0 {
		return err
	}
	m.w.view.show(configs, nil)
	return m.w.mutate.Admit(ctx, a, o)
}

// validatingHooks is the plugin for the second half.
type validatingHooks struct {
	admission.Interface
	w *webhooks
}

// Validate implements admission.ValidationInterface. The real plugin calls all webhooks at once and answers
// with the refusal that came first. Here they are called one after the other, by configuration and order
// in it: all of them, and the first refusal in that order is the answer.
func (v validatingHooks) Validate(ctx context.Context, a admission.Attributes, o admission.ObjectInterfaces) error {
	configs, err := v.w.view.validating(v.w.reachable(ctx))
	if err != nil {
		return err
	}
	var first error
	for _, c := range configs {
		// Its list of webhooks is read before the plugin calls the first: it may change while a call is out.
		v.w.view.show(nil, []*admissionv1.ValidatingWebhookConfiguration{c})
		if err := v.w.valid.Validate(ctx, a, o); err != nil && first == nil {
			first = err
		}
	}
	return first
}

// reachable tells which webhooks can be called on behalf of a request.
func (w *webhooks) reachable(ctx context.Context) func(admissionv1.WebhookClientConfig) bool {
	return func(c admissionv1.WebhookClientConfig) bool {
		host, port, ok := hookAddress(c)
		return ok && w.o.Serves != nil && w.o.Serves(ctx, host, port)
	}
}

// hookAddress is the host and port that a webhook is called at.
func hookAddress(c admissionv1.WebhookClientConfig) (host string, port int, ok bool) {
	if s := c.Service; s != nil {
		port = 443
		if s.Port != nil {
			port = int(*s.Port)
		}
		return s.Name + "." + s.Namespace + ".svc", port, true
	}
	if c.URL == nil {
		return "", 0, false
	}
	u, err := url.Parse(*c.URL)
	if err != nil {
		return "", 0, false
	}
	port = 443
	if p, err := strconv.Atoi(u.Port()); err == nil {
		port = p
	}
	return u.Hostname(), port, true
}

// caller makes client configurations whose transport is Webhooks.Call: net/http's has goroutines, a
// dialer and time limits of its own.
type caller struct {
	call func(*http.Request, *tls.Config) (*http.Response, error)
	now  tlsTime
	// limit is what a webhook is told that has no limit of its own; 0 for none. The client holds it against the
	// wall clock too, but the transport does not heed that: it would add words to the text of a later error.
	limit time.Duration
	// mutates: the answer may change what the request writes.
	mutates bool
}

// ClientConfigFor implements webhookutil.AuthenticationInfoResolver.
func (c caller) ClientConfigFor(string) (*restclient.Config, error) { return c.config(), nil }

// ClientConfigForService implements webhookutil.AuthenticationInfoResolver.
func (c caller) ClientConfigForService(string, string, int) (*restclient.Config, error) {
	return c.config(), nil
}

func (c caller) config() *restclient.Config {
	return &restclient.Config{UserAgent: "kube-apiserver-admission", Timeout: c.limit, WrapTransport: func(rt http.RoundTripper) http.RoundTripper {
		return hookTransport{c, rt}
	}}
}

// hookTransport makes a call to a webhook with the TLS configuration of the transport that it replaces.
type hookTransport struct {
	caller
	instead http.RoundTripper
}

// RoundTrip implements http.RoundTripper.
func (t hookTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.URL.Scheme != "https" {
		return nil, fmt.Errorf("%s: a webhook is called by https", r.URL)
	}
	config, err := utilnet.TLSClientConfig(t.instead)
	if err != nil {
		return nil, err
	}
	if config == nil {
		config = &tls.Config{MinVersion: tls.VersionTLS12}
	}
	config = config.Clone()
	if config.ServerName == "" {
		config.ServerName = r.URL.Hostname()
	}
	if t.mutates {
		store.Mutated(r.Context())
	}
	config.Time, config.NextProtos = t.now, []string{"http/1.1"}
	resp, err := t.call(r, config)
	if err != nil {
		return nil, err
	}
	// The client would wait by the wall clock.
	resp.Header.Del("Retry-After")
	return resp, nil
}

// filterHooks are the webhooks of a configuration that can be called; their own order stays.
func filterHooks[H any](hooks []H, reachable func(admissionv1.WebhookClientConfig) bool, config func(H) admissionv1.WebhookClientConfig) []H {
	return slices.DeleteFunc(slices.Clone(hooks), func(h H) bool { return !reachable(config(h)) })
}
