package scenario

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

var tickets = schema.GroupVersionResource{Group: "travel.example.com", Version: "v1", Resource: "tickets"}

// playTickets wants many journeys at once.
func playTickets(ctx context.Context, u *user) error {
	const n = 12
	for i := range n {
		if err := u.create(ctx, thing{tickets, fmt.Sprintf("ticket-%d", i)}, "Ticket", map[string]any{"to": "Riga"}); err != nil {
			return err
		}
	}
	for i := range n {
		if err := u.await(ctx, thing{tickets, fmt.Sprintf("ticket-%d", i)}, "booked", is("Riga", "status", "booked")); err != nil {
			return err
		}
	}
	return nil
}
