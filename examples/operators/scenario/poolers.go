package scenario

import (
	"context"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

var (
	clusters = schema.GroupVersionResource{Group: "pool.example.com", Version: "v1", Resource: "clusters"}
	poolers  = schema.GroupVersionResource{Group: "pool.example.com", Version: "v1", Resource: "poolers"}
)

// playPoolers sets a pooler up before each of two clusters, and takes one of the clusters down.
func playPoolers(ctx context.Context, u *user) error {
	for _, name := range []string{"main", "old"} {
		if err := u.create(ctx, thing{clusters, name}, "Cluster", map[string]any{"size": int64(3)}); err != nil {
			return err
		}
		pooler := thing{poolers, name + "-pool"}
		if err := u.create(ctx, pooler, "Pooler", map[string]any{"cluster": name}); err != nil {
			return err
		}
		if err := u.await(ctx, pooler, "ready", is("Ready", "status", "phase")); err != nil {
			return err
		}
	}
	if err := u.delete(ctx, thing{clusters, "old"}); err != nil {
		return err
	}
	_, err := u.look(ctx, thing{poolers, "old-pool"}, 4*time.Second, gone)
	return err
}
