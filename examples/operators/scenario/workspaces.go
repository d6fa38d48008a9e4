package scenario

import (
	"context"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

var workspaces = schema.GroupVersionResource{Group: "dev.example.com", Version: "v1", Resource: "workspaces"}

// playWorkspaces makes a workspace, takes it down, and makes another one of the same name.
func playWorkspaces(ctx context.Context, u *user) error {
	alice := thing{workspaces, "alice"}
	if err := u.createWorkspace(ctx, alice, 10); err != nil {
		return err
	}
	if err := u.delete(ctx, alice); err != nil {
		return err
	}
	if err := u.await(ctx, alice, "gone", gone); err != nil {
		return err
	}
	return u.createWorkspace(ctx, alice, 20)
}

func (u *user) createWorkspace(ctx context.Context, t thing, size int64) error {
	if err := u.create(ctx, t, "Workspace", map[string]any{"sizeGiB": size}); err != nil {
		return err
	}
	return u.await(ctx, t, "ready", is("Ready", "status", "phase"))
}
