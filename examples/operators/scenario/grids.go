package scenario

import (
	"context"
	"strconv"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

var grids = schema.GroupVersionResource{Group: "grid.example.com", Version: "v1", Resource: "grids"}

// playGrids sets up a grid and changes its size, in the end once more while the operator is at work.
func playGrids(ctx context.Context, u *user) error {
	roof, plan := thing{grids, "roof"}, thing{configMaps, "roof-plan"}
	if err := u.create(ctx, roof, "Grid", map[string]any{"panels": 4}); err != nil {
		return err
	}
	for panels := 4; panels <= 8; panels += 2 {
		if panels > 4 {
			if _, err := u.edit(ctx, roof, map[string]any{"panels": panels}); err != nil {
				return err
			}
		}
		if err := u.await(ctx, plan, "made", is(strconv.Itoa(panels), "data", "panels")); err != nil {
			return err
		}
		if panels < 8 {
			if err := u.await(ctx, roof, "done", is(int64(panels), "status", "panels")); err != nil {
				return err
			}
		}
	}
	if _, err := u.edit(ctx, roof, map[string]any{"panels": 12}); err != nil { // the operator is at the 8
		return err
	}
	if err := u.await(ctx, roof, "done", is(int64(4), "status", "observedGeneration")); err != nil {
		return err
	}
	return u.stay(ctx, 7*time.Second)
}
