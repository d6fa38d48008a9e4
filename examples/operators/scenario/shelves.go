package scenario

import (
	"context"
	"fmt"
	"strconv"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

var shelves = schema.GroupVersionResource{Group: "shelf.example.com", Version: "v1", Resource: "shelves"}

// playShelves sets three shelves up, and buys books.
func playShelves(ctx context.Context, u *user) error {
	for i := range 3 {
		shelf := thing{shelves, fmt.Sprintf("shelf-%d", i)}
		if err := u.create(ctx, shelf, "Shelf", map[string]any{"books": int64(1)}); err != nil {
			return err
		}
		for books := int64(1); books < 4; books++ {
			if err := u.await(ctx, thing{configMaps, shelf.name}, "filled", is(strconv.FormatInt(books, 10), "data", "books")); err != nil {
				return err
			}
			if _, err := u.edit(ctx, shelf, map[string]any{"books": books + 1}); err != nil {
				return err
			}
		}
	}
	return nil
}
