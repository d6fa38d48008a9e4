package scenario

import (
	"context"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

var fleets = schema.GroupVersionResource{Group: "fleet.example.com", Version: "v1", Resource: "fleets"}

// playFleets rents two fleets and gives one of them back.
func playFleets(ctx context.Context, u *user) error {
	vans, bikes := thing{fleets, "vans"}, thing{fleets, "bikes"}
	for _, fleet := range []thing{vans, bikes} {
		if err := u.create(ctx, fleet, "Fleet", map[string]any{"size": 2}); err != nil {
			return err
		}
		if err := u.await(ctx, fleet, "rented", is(int64(2), "status", "rented")); err != nil {
			return err
		}
	}
	if err := u.delete(ctx, vans); err != nil {
		return err
	}
	return u.await(ctx, vans, "gone", gone)
}
