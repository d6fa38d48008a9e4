package scenario

import (
	"context"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

var routes = schema.GroupVersionResource{Group: "net.example.com", Version: "v1", Resource: "routes"}

// playRoutes makes two routes of one table, deletes one of them and moves the other.
func playRoutes(ctx context.Context, u *user) error {
	office, backup := thing{routes, "office"}, thing{routes, "backup"}
	for _, route := range []thing{office, backup} {
		if err := u.create(ctx, route, "Route", map[string]any{"table": "main", "via": "192.0.2.1"}); err != nil {
			return err
		}
		if err := u.awaitWay(ctx, route, "192.0.2.1"); err != nil {
			return err
		}
	}
	if err := u.delete(ctx, backup); err != nil {
		return err
	}
	if err := u.awaitWay(ctx, backup, ""); err != nil {
		return err
	}
	if _, err := u.edit(ctx, office, map[string]any{"via": "192.0.2.2"}); err != nil {
		return err
	}
	return u.awaitWay(ctx, office, "192.0.2.2")
}

// awaitWay waits until the table has that way for the route; "" for none.
func (u *user) awaitWay(ctx context.Context, route thing, via string) error {
	return u.await(ctx, thing{configMaps, "main"}, "up to date", func(table *unstructured.Unstructured) bool {
		if table == nil {
			return false
		}
		way, _, err := unstructured.NestedString(table.Object, "data", route.name)
		return err == nil && way == via
	})
}
