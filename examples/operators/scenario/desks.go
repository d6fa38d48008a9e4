package scenario

import (
	"context"
	"strconv"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

var desks = schema.GroupVersionResource{Group: "desk.example.com", Version: "v1", Resource: "desks"}

// playDesks gives desks to people, and to others later.
func playDesks(ctx context.Context, u *user) error {
	for _, owner := range []string{"ada", "grace"} {
		for i := range 8 {
			desk := thing{desks, "desk-" + strconv.Itoa(i)}
			var err error
			if owner == "ada" {
				err = u.create(ctx, desk, "Desk", map[string]any{"owner": owner})
			} else {
				_, err = u.edit(ctx, desk, map[string]any{"owner": owner})
			}
			if err != nil {
				return err
			}
			if err := u.await(ctx, desk, "signed", is(owner, "status", "owner")); err != nil {
				return err
			}
		}
	}
	return nil
}
