package scenario

import (
	"context"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

var (
	apps = schema.GroupVersionResource{Group: "app.example.com", Version: "v1", Resource: "apps"}
	pods = schema.GroupVersionResource{Version: "v1", Resource: "pods"}
)

// playApps runs a program, whose pod a kubelet starts, changes its settings, and looks at it for a minute.
func playApps(ctx context.Context, u *user) error {
	shop, pod := thing{apps, "shop"}, thing{pods, "shop-0"}
	if err := u.create(ctx, shop, "App", map[string]any{"level": "info"}); err != nil {
		return err
	}
	if err := u.await(ctx, pod, "made", has("metadata", "uid")); err != nil {
		return err
	}
	if err := u.kubelet(ctx, pod, time.Now()); err != nil {
		return err
	}
	if err := u.await(ctx, shop, "set up", is("info", "status", "level")); err != nil {
		return err
	}
	if err := u.stay(ctx, 2*time.Second); err != nil { // a container's start has a time of whole seconds
		return err
	}
	if _, err := u.edit(ctx, shop, map[string]any{"level": "debug"}); err != nil {
		return err
	}
	if err := u.await(ctx, thing{configMaps, "shop-settings"}, "changed", is("debug", "data", "LEVEL")); err != nil {
		return err
	}
	return u.stay(ctx, 65*time.Second)
}

// kubelet says that a pod's only container runs since then.
func (u *user) kubelet(ctx context.Context, pod thing, since time.Time) error {
	return u.status(ctx, pod, "kubelet", map[string]any{"phase": "Running", "containerStatuses": []any{map[string]any{
		"name": "main", "image": "registry.example.com/program:1", "imageID": "", "ready": true, "restartCount": 0,
		"state": map[string]any{"running": map[string]any{"startedAt": since.UTC().Format(time.RFC3339)}},
	}}})
}
