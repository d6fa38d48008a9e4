package scenario

import (
	"context"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

var stores = schema.GroupVersionResource{Group: "cache.example.com", Version: "v1", Resource: "stores"}

// playStores sets a store up, and gives up when it is not ready after a while.
func playStores(ctx context.Context, u *user) error {
	hot := thing{stores, "hot"}
	if err := u.create(ctx, hot, "Store", map[string]any{"members": int64(3)}); err != nil {
		return err
	}
	if err := u.await(ctx, thing{configMaps, "hot-settings"}, "written", has("data", "members")); err != nil {
		return err
	}
	_, err := u.look(ctx, hot, 4*time.Second, is("Ready", "status", "phase"))
	return err
}
