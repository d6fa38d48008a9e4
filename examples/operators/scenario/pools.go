package scenario

import (
	"context"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

var (
	pools       = schema.GroupVersionResource{Group: "load.example.com", Version: "v1", Resource: "pools"}
	deployments = schema.GroupVersionResource{Group: "apps", Version: "v1", Resource: "deployments"}
)

// playPools sets up a pool whose size the user decides, and one whose size the load decides, and waits for the second
// one's Deployment to come to rest.
func playPools(ctx context.Context, u *user) error {
	for _, pool := range []struct {
		name      string
		autoscale bool
	}{{"night", false}, {"day", true}} {
		if err := u.create(ctx, thing{pools, pool.name}, "Pool", map[string]any{"workers": 2, "autoscale": pool.autoscale}); err != nil {
			return err
		}
	}
	deployment := thing{deployments, "day"}
	if err := u.await(ctx, deployment, "scaled", is(int64(5), "spec", "replicas")); err != nil {
		return err
	}
	// One that is fought over never rests: the user gives up when it has been written very often.
	var version string
	var since time.Time
	_, err := u.look(ctx, deployment, patience, func(o *unstructured.Unstructured) bool {
		if v := o.GetResourceVersion(); v != version {
			version, since = v, time.Now()
		}
		return o.GetGeneration() > 60 || time.Since(since) > 2*time.Second
	})
	return err
}
