package scenario

import (
	"context"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

var timers = schema.GroupVersionResource{Group: "timer.example.com", Version: "v1", Resource: "timers"}

// playTimers boils an egg.
func playTimers(ctx context.Context, u *user) error {
	egg := thing{timers, "egg"}
	if err := u.create(ctx, egg, "Timer", map[string]any{"seconds": 15}); err != nil {
		return err
	}
	if err := u.await(ctx, egg, "ringing", is(true, "status", "rung")); err != nil {
		return err
	}
	return u.stay(ctx, 2*time.Second)
}
