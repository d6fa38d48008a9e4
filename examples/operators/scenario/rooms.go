package scenario

import (
	"context"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

var (
	roomTypes = schema.GroupVersionResource{Group: "hotel.example.com", Version: "v1", Resource: "roomtypes"}
	rooms     = schema.GroupVersionResource{Group: "hotel.example.com", Version: "v1", Resource: "rooms"}
)

// playRooms makes a room of each type, and takes one of the types away.
func playRooms(ctx context.Context, u *user) error {
	for _, name := range []string{"single", "suite"} {
		if err := u.create(ctx, thing{rooms, "my-" + name}, "Room", map[string]any{"type": name}); err != nil {
			return err
		}
	}
	if err := u.stay(ctx, 2*time.Second); err != nil {
		return err
	}
	if err := u.delete(ctx, thing{roomTypes, "suite"}); err != nil {
		return err
	}
	return u.stay(ctx, time.Second) // an API server ends the watches of what has another definition, which a recorder tells of
}
