package scenario

import (
	"context"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

var stands = schema.GroupVersionResource{Group: "market.example.com", Version: "v1", Resource: "stands"}

// playStands sets up a stand, has the controller of Deployments say that its staff has come, and then that it has gone.
func playStands(ctx context.Context, u *user) error {
	fruit, staff := thing{stands, "fruit"}, thing{deployments, "fruit"}
	if err := u.create(ctx, fruit, "Stand", map[string]any{"staff": 2}); err != nil {
		return err
	}
	if err := u.await(ctx, staff, "asked for", has("spec", "replicas")); err != nil {
		return err
	}
	const controller = "kube-controller-manager"
	present := map[string]any{"observedGeneration": 1, "replicas": 2, "updatedReplicas": 2, "readyReplicas": 2, "availableReplicas": 2}
	if err := u.status(ctx, staff, controller, present); err != nil {
		return err
	}
	if err := u.await(ctx, fruit, "ready", ready); err != nil {
		return err
	}
	if err := u.status(ctx, staff, controller, map[string]any{"readyReplicas": 0, "availableReplicas": 0, "unavailableReplicas": 2}); err != nil {
		return err
	}
	return u.stay(ctx, 40*time.Second)
}
