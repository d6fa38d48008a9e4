package livecluster

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

const (
	// startTimeout bounds the start of the servers, builds not counted. On a machine that does nothing
	// else they need four seconds, on one with a load of ten a core half a minute.
	startTimeout = 3 * time.Minute
	pollInterval = 50 * time.Millisecond
	pollTimeout  = 5 * time.Second
)

// Cluster is a running control plane.
type Cluster struct {
	url     string
	version string
	dir     *folder
	ca      *authority
	guard   *guard
	ports   []port
	servers []*process // in the order of their start
	admin   *rest.Config
	stop    func()
	stopped atomic.Bool // or stopping: a server that ended is no news
}

// Up starts a cluster. CTX bounds the start only (and the build of the binaries, if they must be
// built); the cluster runs until Stop is called or this process ends.
func Up(ctx context.Context, o Options) (*Cluster, error) {
	if err := supported(); err != nil {
		return nil, err
	}
	if err := o.check(); err != nil {
		return nil, err
	}
	names := []string{Etcd, APIServer}
	if len(o.Controllers) > 0 {
		names = append(names, ControllerManager)
	}
	binaries, err := Binaries(ctx, o.Progress, names...)
	if err != nil {
		return nil, err
	}
	c := &Cluster{}
	c.stop = sync.OnceFunc(c.shutDown)
	ctx, cancel := context.WithTimeoutCause(ctx, startTimeout, fmt.Errorf("not within %v", startTimeout))
	defer cancel()
	if err := c.start(ctx, binaries, &o); err != nil {
		c.Stop()
		return nil, fmt.Errorf("start a cluster: %w", err)
	}
	return c, nil
}

func (c *Cluster) start(ctx context.Context, binaries map[string]string, o *Options) error {
	var err error
	if c.dir, err = claimDir(o.Dir); err != nil {
		return err
	}
	if c.guard, err = newGuard(); err != nil {
		return err
	}
	if c.ca, err = newAuthority(); err != nil {
		return err
	}
	if err := writePKI(c.dir.path, c.ca); err != nil {
		return err
	}
	if err := c.startAPIServer(ctx, binaries, o); err != nil {
		return err
	}
	if len(o.Controllers) == 0 {
		return nil
	}
	return c.startManager(ctx, binaries[ControllerManager], o.Controllers)
}

func (c *Cluster) startAPIServer(ctx context.Context, binaries map[string]string, o *Options) error {
	p, err := c.reserve()
	if err != nil {
		return err
	}
	c.url = fmt.Sprintf("https://127.0.0.1:%d", p)
	if c.admin, err = c.configFor("admin", "system:masters"); err != nil {
		return err
	}
	if err := c.writeKubeconfig(c.KubeconfigFile(), c.admin); err != nil {
		return err
	}
	flags, err := apiServerFlags(c.dir.path, p, o)
	if err != nil {
		return err
	}
	if err := c.run(Etcd, binaries[Etcd], etcdFlags()); err != nil {
		return err
	}
	if err := c.run(APIServer, binaries[APIServer], flags); err != nil {
		return err
	}
	client, err := rest.HTTPClientFor(ours(c.admin))
	if err != nil {
		return err
	}
	defer client.CloseIdleConnections()
	// The namespace default is made after the server calls itself ready.
	for _, path := range []string{"/readyz", "/api/v1/namespaces/default"} {
		if _, err := c.await(ctx, client, c.url+path); err != nil {
			return err
		}
	}
	answer, err := c.await(ctx, client, c.url+"/version")
	if err != nil {
		return err
	}
	var version struct{ GitVersion string }
	if err := json.Unmarshal(answer, &version); err != nil {
		return fmt.Errorf("read the API server's version: %w", err)
	}
	c.version = version.GitVersion
	return nil
}

func (c *Cluster) startManager(ctx context.Context, binary string, controllers []string) error {
	config, err := c.configFor("system:kube-controller-manager")
	if err != nil {
		return err
	}
	if err := c.writeKubeconfig(filepath.Join(c.dir.path, managerConfig), config); err != nil {
		return err
	}
	p, err := c.reserve()
	if err != nil {
		return err
	}
	if err := c.run(ControllerManager, binary, managerFlags(p, controllers)); err != nil {
		return err
	}
	client, err := rest.HTTPClientFor(ours(config))
	if err != nil {
		return err
	}
	defer client.CloseIdleConnections()
	_, err = c.await(ctx, client, fmt.Sprintf("https://127.0.0.1:%d/healthz", p))
	return err
}

// ours names us as the one who asks whether a server is ready, for an audit log holds that too.
func ours(config *rest.Config) *rest.Config {
	config = rest.CopyConfig(config)
	config.UserAgent = "opreplay-livecluster"
	return config
}

func (c *Cluster) reserve() (int, error) {
	p, err := reservePort()
	if err != nil {
		return 0, err
	}
	c.ports = append(c.ports, p)
	return p.number, nil
}

func (c *Cluster) run(name, binary string, flags []string) error {
	p, err := startProcess(c.guard, name, binary, c.dir.path, flags)
	if err != nil {
		return err
	}
	c.servers = append(c.servers, p)
	return nil
}

// await asks URL until the answer is 200, and returns it. It gives up when a server has ended or the
// context has.
func (c *Cluster) await(ctx context.Context, client *http.Client, url string) ([]byte, error) {
	tick := time.NewTicker(pollInterval)
	defer tick.Stop()
	last := errors.New("no answer")
	for {
		answer, err := get(ctx, client, url)
		if err == nil {
			return answer, nil
		}
		if ctx.Err() == nil {
			last = err
		}
		if p := c.ended(); p != nil {
			return nil, p.failure()
		}
		select {
		case <-ctx.Done():
			newest := c.servers[len(c.servers)-1]
			return nil, fmt.Errorf("%s did not get ready: %w (%w); the end of its log:\n%s",
				newest.name, context.Cause(ctx), last, newest.tail())
		case <-tick.C:
		}
	}
}

func get(ctx context.Context, client *http.Client, url string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, pollTimeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, err
	}
	resp, err := client.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, 1<<20))
	if err == nil && resp.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %s: %s", url, resp.Status, body)
	}
	return body, err
}

// ended is a server that is gone though nobody stopped it, if there is one.
func (c *Cluster) ended() *process {
	if c.stopped.Load() {
		return nil
	}
	for _, p := range c.servers {
		if p.ended() {
			return p
		}
	}
	return nil
}

// Wait returns nil when CTX ends, and an error, with the end of the log, when a server ends before.
func (c *Cluster) Wait(ctx context.Context) error {
	gone := make(chan *process, len(c.servers))
	for _, p := range c.servers {
		go func() {
			select {
			case <-p.done:
				gone <- p
			case <-ctx.Done():
			}
		}()
	}
	select {
	case <-ctx.Done():
		return nil
	case p := <-gone:
		return p.failure()
	}
}

// Stop stops the servers, waits until they are gone, and removes the folder if it was temporary. Calls
// after the first do nothing.
func (c *Cluster) Stop() { c.stop() }

// shutDown takes down whatever start has put up. Controllers go before the API server and that before
// etcd: without etcd the API server hangs for more than a minute. So when a server is gone already, there
// is no order to keep and the others are killed.
func (c *Cluster) shutDown() {
	grace := stopGrace
	if c.ended() != nil {
		grace = 0
	}
	c.stopped.Store(true)
	for _, p := range slices.Backward(c.servers) {
		p.stop(grace)
	}
	if c.guard != nil {
		c.guard.close()
	}
	for _, p := range c.ports {
		p.release()
	}
	if c.dir != nil {
		_ = c.dir.release() // what cannot be removed now, the next start will try again
	}
}

// Version is the API server's own word about its version, for instance "v1.37.2".
func (c *Cluster) Version() string { return c.version }

// Dir is the folder that holds the cluster's data, logs and kubeconfigs.
func (c *Cluster) Dir() string { return c.dir.path }

// AuditLogFile is where the audit log is, one audit.k8s.io/v1 Event in JSON a line, if it was asked for.
func (c *Cluster) AuditLogFile() string { return filepath.Join(c.dir.path, auditLogName) }

// Kubectl is the path of a kubectl: that of KUBEBUILDER_ASSETS or PATH, else one that is built.
func (c *Cluster) Kubectl() (string, error) {
	found, err := Binaries(context.Background(), nil, Kubectl)
	return found[Kubectl], err
}

// Config is an administrator's configuration (group system:masters), without a rate limit.
func (c *Cluster) Config() *rest.Config { return rest.CopyConfig(c.admin) }

// KubeconfigFile is the administrator's kubeconfig, with its keys inside.
func (c *Cluster) KubeconfigFile() string { return filepath.Join(c.dir.path, "admin.kubeconfig") }

// ConfigFor is the configuration of any user, known by a client certificate. A service account's name
// works too ("system:serviceaccount:NAMESPACE:NAME", with its groups "system:serviceaccounts" and
// "system:serviceaccounts:NAMESPACE"). It panics if the machine has no randomness.
func (c *Cluster) ConfigFor(user string, groups ...string) *rest.Config {
	config, err := c.configFor(user, groups...)
	if err != nil {
		panic("livecluster: " + err.Error())
	}
	return config
}

func (c *Cluster) configFor(user string, groups ...string) (*rest.Config, error) {
	client, err := c.ca.client(user, groups...)
	if err != nil {
		return nil, err
	}
	return &rest.Config{
		Host: c.url,
		TLSClientConfig: rest.TLSClientConfig{
			CAData:   c.ca.pem,
			CertData: client.cert,
			KeyData:  client.key,
		},
		QPS: -1, // no limit
	}, nil
}

// KubeconfigFor writes the configuration of any user into the cluster's folder. The same user and
// groups get the same path.
func (c *Cluster) KubeconfigFor(user string, groups ...string) (string, error) {
	config, err := c.configFor(user, groups...)
	if err != nil {
		return "", err
	}
	who := sha256.Sum256([]byte(strings.Join(append([]string{user}, groups...), "\x00")))
	path := filepath.Join(c.dir.path, fmt.Sprintf("user-%x.kubeconfig", who[:8]))
	return path, c.writeKubeconfig(path, config)
}

func (c *Cluster) writeKubeconfig(path string, config *rest.Config) error {
	k := kubeconfig(config.Host, config.CAData, pair{cert: config.CertData, key: config.KeyData})
	if err := clientcmd.WriteToFile(*k, path); err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	return nil
}

// PIDs are the servers' processes, by name (Etcd, APIServer …): for those who measure them.
func (c *Cluster) PIDs() map[string]int {
	pids := map[string]int{}
	for _, p := range c.servers {
		pids[p.name] = p.cmd.Process.Pid
	}
	return pids
}
