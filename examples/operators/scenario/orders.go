package scenario

import (
	"context"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

var orders = schema.GroupVersionResource{Group: "shop.example.com", Version: "v1", Resource: "orders"}

// playOrders buys twice, with some time in between, in which a lease may run out and another replica take over.
func playOrders(ctx context.Context, u *user) error {
	book, pen := thing{orders, "book"}, thing{orders, "pen"}
	if err := u.order(ctx, book); err != nil {
		return err
	}
	if _, err := u.rest(ctx, book, 6*time.Second, 7*time.Second); err != nil {
		return err
	}
	return u.order(ctx, pen)
}

func (u *user) order(ctx context.Context, t thing) error {
	if err := u.create(ctx, t, "Order", map[string]any{"item": t.name}); err != nil {
		return err
	}
	return u.await(ctx, t, "invoiced", has("status", "invoice"))
}
