package recorder

import (
	"context"
	"net/http"
	"os"
	"path/filepath"

	"github.com/opreplay/opreplay/internal/apicall"
	"github.com/opreplay/opreplay/internal/cli"
)

// Proxy records all API calls of whoever uses its kubeconfig, until CTX or the duration ends.
func Proxy(ctx context.Context, o ProxyOptions) (*Result, error) {
	listen := o.Listen
	if listen == "" {
		listen = "127.0.0.1:0"
	}
	if err := onLoopback("--listen", listen, lends); err != nil {
		return nil, err
	}
	if err := o.onlyWatches(o.Capture, "say --capture too"); err != nil {
		return nil, err
	}
	c, err := reach(ctx, o.Config)
	if err != nil {
		return nil, err
	}
	var plan *plan
	if o.Capture {
		if plan, err = newPlan(ctx, c, &o.Options); err != nil {
			return nil, err
		}
	}
	s, err := newSession(ctx, &o.Options, c, "proxy", plan.manifest())
	if err != nil {
		return nil, err
	}
	return s.finish(s.proxy(o, listen, plan))
}

// proxy serves until the session ends.
func (s *session) proxy(o ProxyOptions, listen string, plan *plan) error {
	capture, err := s.startCapture(plan)
	defer capture.wait()
	defer s.cancel(nil)
	if err != nil {
		return err
	}
	door, err := s.openDoor(listen, o.Kubeconfig, o.Name, o.Open)
	if err != nil {
		return err
	}
	s.begun.Store(true)
	if o.Ready != nil {
		o.Ready(door.Endpoint)
	}
	s.report()
	<-s.ctx.Done()
	return door.close()
}

// door is a gateway with its kubeconfig.
type door struct {
	Endpoint
	gateway *gateway
	temp    string // folder to remove
}

// openDoor starts the proxy and writes its kubeconfig.
func (s *session) openDoor(listen, kubeconfig, name string, open bool) (*door, error) {
	d := &door{}
	if kubeconfig == "" {
		dir, err := os.MkdirTemp("", "oprec-") // 0700
		if err != nil {
			return nil, cli.CannotRun(err)
		}
		d.temp, kubeconfig = dir, filepath.Join(dir, "kubeconfig")
	}
	token := newToken()
	if open {
		token = ""
	}
	o := apicall.Options{Now: s.now, Redact: s.redact, Failed: s.fail, User: s.user}
	if name != "" {
		o.Process = func(*http.Request) string { return name }
	}
	tap := apicall.New(s, o)
	s.mu.Lock()
	s.tap = tap
	s.mu.Unlock()
	var err error
	if d.gateway, err = openGateway(s.cluster, listen, token, tap); err != nil {
		d.remove()
		return nil, err
	}
	d.Endpoint = Endpoint{URL: d.gateway.url, Kubeconfig: kubeconfig}
	if err := writeKubeconfig(kubeconfig, d.gateway.address(token), s.o.Namespace); err != nil {
		_ = d.close()
		return nil, cli.Usagef("%w", err)
	}
	return d, nil
}

// user is who a call is made as, impersonation included.
func (s *session) user(r *http.Request) string {
	if u := r.Header.Get("Impersonate-User"); u != "" {
		return u
	}
	return s.cluster.user
}

func (d *door) close() error {
	err := d.gateway.close()
	d.remove()
	return err
}

func (d *door) remove() {
	if d.temp != "" {
		_ = os.RemoveAll(d.temp)
	}
}
