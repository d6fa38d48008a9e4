package scenario

import (
	"context"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

var stations = schema.GroupVersionResource{Group: "station.example.com", Version: "v1", Resource: "stations"}

// playStations sets two weather stations up.
func playStations(ctx context.Context, u *user) error {
	for _, name := range []string{"hill", "beach"} {
		station := thing{stations, name}
		if err := u.create(ctx, station, "Station", map[string]any{"port": 9100}); err != nil {
			return err
		}
		if err := u.await(ctx, station, "monitored", is(true, "status", "monitored")); err != nil {
			return err
		}
	}
	return u.stay(ctx, 2*time.Second)
}
