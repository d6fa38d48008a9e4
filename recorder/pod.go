package recorder

import (
	"context"
	"fmt"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/opreplay/opreplay/internal/cli"
)

// podUIDs are what the cgroup of a pod may be called by: its uid or, for a pod that the kubelet runs from a file, the
// hash of that (kubetypes.ConfigHashAnnotationKey of k8s.io/kubernetes). A pod of that name that comes later has
// another one.
type podUIDs struct {
	cluster *cluster
	pod     string // NAMESPACE/NAME
	uids    []string
	asked   time.Time
}

const (
	staticPodHash = "kubernetes.io/config.hash"
	askPodEvery   = 2 * time.Second
)

// read asks the API server.
func (u *podUIDs) read(ctx context.Context) error {
	u.asked = time.Now()
	client, err := kubernetes.NewForConfig(u.cluster.config)
	if err != nil {
		return cli.Usagef("the kubeconfig for %s: %w", u.cluster.server, err)
	}
	namespace, name, _ := strings.Cut(u.pod, "/")
	ctx, cancel := context.WithTimeout(ctx, reachTimeout)
	defer cancel()
	pod, err := client.CoreV1().Pods(namespace).Get(ctx, name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		return cli.Usagef("--pod %s: the cluster has no such pod", u.pod)
	case apierrors.IsForbidden(err):
		return cli.Usagef("--pod %s: the user %q may not read it", u.pod, u.cluster.user)
	case err != nil:
		return cli.CannotRun(fmt.Errorf("--pod %s: %w", u.pod, err))
	}
	u.uids = []string{string(pod.UID)}
	if hash := pod.Annotations[staticPodHash]; hash != "" {
		u.uids = append(u.uids, hash)
	}
	return nil
}

// now is what was read lately. While the API server does not answer, or the pod is gone, the last ones are good.
func (u *podUIDs) now(ctx context.Context) []string {
	if time.Since(u.asked) > askPodEvery {
		_ = u.read(ctx)
	}
	return u.uids
}
