package scenario

import (
	"context"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

var rollouts = schema.GroupVersionResource{Group: "deploy.example.com", Version: "v1", Resource: "rollouts"}

// playRollouts rolls out one Deployment and scales it twice, each time when it has been rolled out.
func playRollouts(ctx context.Context, u *user) error {
	web := thing{rollouts, "web"}
	if err := u.create(ctx, web, "Rollout", map[string]any{"replicas": 2}); err != nil {
		return err
	}
	if err := u.awaitRollout(ctx, web, 1); err != nil {
		return err
	}
	for _, replicas := range []int64{4, 6} {
		generation, err := u.edit(ctx, web, map[string]any{"replicas": replicas})
		if err != nil {
			return err
		}
		if err := u.awaitRollout(ctx, web, generation); err != nil {
			return err
		}
	}
	return nil
}

func (u *user) awaitRollout(ctx context.Context, t thing, generation int64) error {
	return u.await(ctx, t, "rolled out", func(o *unstructured.Unstructured) bool {
		return is("Done", "status", "phase")(o) && is(generation, "status", "observedGeneration")(o)
	})
}
