package recorder

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/opreplay/opreplay/internal/cli"
)

// Access says how to reach a cluster, as kubectl's flags of the same names do.
type Access struct {
	// Kubeconfig is a file; "" takes KUBECONFIG, ~/.kube/config or the pod's own service account.
	Kubeconfig string
	// Context is a context of the kubeconfig; "" the current one.
	Context string
	// As and AsGroups impersonate a user, such as system:serviceaccount:NAMESPACE:NAME.
	As       string
	AsGroups []string
}

// Load finds the cluster's address and credentials and the context's namespace, without a call. What is
// missing is an error of usage (exit code 2).
func (a Access) Load() (config *rest.Config, namespace string, err error) {
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	if a.Kubeconfig != "" {
		if _, err := os.Stat(a.Kubeconfig); err != nil {
			return nil, "", cli.Usagef("--kubeconfig %s: %w", a.Kubeconfig, pathless(err))
		}
		rules.ExplicitPath = a.Kubeconfig
	} else if err := anyThere(os.Getenv(clientcmd.RecommendedConfigPathEnvVar)); err != nil {
		return nil, "", err
	}
	overrides := &clientcmd.ConfigOverrides{CurrentContext: a.Context}
	loader := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, overrides)
	where := a.describe(rules)
	config, err = loader.ClientConfig()
	if err != nil {
		if clientcmd.IsEmptyConfig(err) {
			return nil, "", cli.Usagef("%s names no cluster: set --kubeconfig or KUBECONFIG", where)
		}
		return nil, "", cli.Usagef("%s: %w", where, err)
	}
	if namespace, _, err = loader.Namespace(); err != nil {
		return nil, "", cli.Usagef("%s: %w", where, err)
	}
	if a.As != "" {
		config.Impersonate.UserName = a.As
	}
	if len(a.AsGroups) > 0 {
		if a.As == "" {
			return nil, "", cli.Usagef("--as-group needs --as")
		}
		config.Impersonate.Groups = a.AsGroups
	}
	return config, namespace, nil
}

func (a Access) describe(rules *clientcmd.ClientConfigLoadingRules) string {
	if a.Kubeconfig != "" {
		return "kubeconfig " + a.Kubeconfig
	}
	return "kubeconfig " + strings.Join(rules.GetLoadingPrecedence(), string(filepath.ListSeparator))
}

// anyThere fails when KUBECONFIG is set and none of its files exists; client-go would go on to
// localhost:8080 without a word.
func anyThere(list string) error {
	if list == "" {
		return nil
	}
	var first error
	for _, path := range filepath.SplitList(list) {
		if path == "" {
			continue
		}
		_, err := os.Stat(path)
		if err == nil {
			return nil
		}
		if first == nil {
			first = cli.Usagef("KUBECONFIG=%s: %w", path, pathless(err))
		}
	}
	return first
}

// pathless is the reason of a file error without the path, which the caller names.
func pathless(err error) error {
	if e, ok := errors.AsType[*os.PathError](err); ok {
		return e.Err
	}
	return err
}

// reachTimeout is how long a cluster may take for its first answer.
const reachTimeout = 15 * time.Second

// cluster is a cluster that answered.
type cluster struct {
	config  *rest.Config
	server  string // URL without credentials
	version string
	user    string // "" when the server does not say
}

// reach asks the server who it is and who we are.
func reach(ctx context.Context, config *rest.Config) (*cluster, error) {
	config = rest.CopyConfig(config)
	config.WarningHandler = rest.NoWarnings{}
	config.QPS = -1 // a recorder that waits for its own rate limiter loses events
	config.Timeout = 0
	c := &cluster{config: config, server: redactedURL(config.Host)}
	first := rest.CopyConfig(config)
	first.Timeout = reachTimeout
	client, err := kubernetes.NewForConfig(first)
	if err != nil {
		return nil, cli.Usagef("the kubeconfig for %s: %w", c.server, err)
	}
	interrupted := ctx
	ctx, cancel := context.WithTimeout(ctx, reachTimeout)
	defer cancel()
	version, err := client.Discovery().ServerVersionWithContext(ctx)
	switch {
	case interrupted.Err() != nil:
		return nil, cli.CannotRun(errors.New("interrupted before the recording began"))
	case apierrors.IsUnauthorized(err):
		return nil, cli.Usagef("the API server at %s does not take the kubeconfig's credentials", c.server)
	case apierrors.IsForbidden(err): // a server that hides even its version
	case err != nil:
		return nil, cli.Usagef("no Kubernetes API server answers at %s: %w", c.server, root(err))
	default:
		c.version = version.GitVersion
	}
	review, err := client.AuthenticationV1().SelfSubjectReviews().Create(ctx, &authenticationv1.SelfSubjectReview{}, metav1.CreateOptions{})
	switch {
	case apierrors.IsUnauthorized(err):
		return nil, cli.Usagef("the API server at %s does not take the kubeconfig's credentials", c.server)
	case err == nil:
		c.user = review.Status.UserInfo.Username
	case config.Impersonate.UserName != "": // servers before 1.28 don't know SelfSubjectReview
		c.user = config.Impersonate.UserName
	}
	return c, nil
}

// root is an HTTP client's error without the method and URL, which are not what the user called.
func root(err error) error {
	if e, ok := errors.AsType[*url.Error](err); ok {
		return e.Err
	}
	return err
}

func redactedURL(host string) string {
	if !strings.Contains(host, "://") {
		host = "https://" + host
	}
	u, err := url.Parse(host)
	if err != nil {
		return "an address that is no URL"
	}
	u.User, u.RawQuery, u.Fragment = nil, "", ""
	return strings.TrimSuffix(u.String(), "/")
}

// isServiceAccount: a user that stands for a program, not for a person with several tools.
func isServiceAccount(user string) bool { return strings.HasPrefix(user, "system:serviceaccount:") }

func count(n int64, one, many string) string {
	if n == 1 {
		return fmt.Sprintf("%d %s", n, one)
	}
	return fmt.Sprintf("%d %s", n, many)
}
