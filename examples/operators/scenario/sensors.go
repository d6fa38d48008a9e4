package scenario

import (
	"context"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

var sensors = schema.GroupVersionResource{Group: "sense.example.com", Version: "v1", Resource: "sensors"}

// playSensors sets a sensor up, and is its agent for some seconds.
func playSensors(ctx context.Context, u *user) error {
	attic := thing{sensors, "attic"}
	if err := u.create(ctx, attic, "Sensor", map[string]any{"unit": "K"}); err != nil {
		return err
	}
	if err := u.await(ctx, thing{configMaps, "attic"}, "set up", is("K", "data", "unit")); err != nil {
		return err
	}
	for i := range 60 {
		if err := u.status(ctx, attic, "sensor-agent", map[string]any{"reading": 280 + i}); err != nil {
			return err
		}
		if err := u.stay(ctx, 100*time.Millisecond); err != nil {
			return err
		}
	}
	return nil
}
