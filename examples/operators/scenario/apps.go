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

// playApps runs a program, whose pod a kubelet starts, changes its settings, and comes back a minute later for another one.
func playApps(ctx context.Context, u *user) error {
	shop, pod := thing{apps, "shop"}, thing{pods, "shop-0"}
	if err := u.create(ctx, shop, "App", map[string]any{"level": "info"}); err != nil {
		return err
	}
	if err := u.await(ctx, pod, "made", has("metadata", "uid")); err != nil {
		return err
	}
	if err := u.status(ctx, pod, "kubelet", map[string]any{"phase": "Running"}); err != nil {
		return err
	}
	if err := u.await(ctx, shop, "set up", is("info", "status", "level")); err != nil {
		return err
	}
	if _, err := u.edit(ctx, shop, map[string]any{"level": "debug"}); err != nil {
		return err
	}
	if err := u.await(ctx, thing{configMaps, "shop-settings"}, "changed", is("debug", "data", "LEVEL")); err != nil {
		return err
	}
	if err := u.stay(ctx, 66*time.Second); err != nil {
		return err
	}
	blog := thing{apps, "blog"}
	if err := u.create(ctx, blog, "App", map[string]any{"level": "info"}); err != nil {
		return err
	}
	return u.await(ctx, blog, "set up", is("info", "status", "level"))
}
