package scenario

import (
	"context"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

var databases = schema.GroupVersionResource{Group: "data.example.com", Version: "v1", Resource: "databases"}

// playDatabases makes three databases, lets them grow three times, each time when they are ready, and
// looks in the end whether backups are scheduled for their present size.
func playDatabases(ctx context.Context, u *user) error {
	all := []thing{{databases, "orders"}, {databases, "billing"}, {databases, "stock"}}
	generations := map[thing]int64{}
	for _, db := range all {
		if err := u.create(ctx, db, "Database", map[string]any{"sizeGiB": 10}); err != nil {
			return err
		}
		generations[db] = 1
	}
	if err := u.awaitReady(ctx, all, generations); err != nil {
		return err
	}
	for _, size := range []int64{20, 40, 80} {
		for _, db := range all {
			generation, err := u.edit(ctx, db, map[string]any{"sizeGiB": size})
			if err != nil {
				return err
			}
			generations[db] = generation
		}
		if err := u.awaitReady(ctx, all, generations); err != nil {
			return err
		}
	}
	scheduled := func(o *unstructured.Unstructured) bool { return condition(o, "BackupScheduled", generations[all[0]]) }
	_, err := u.look(ctx, all[0], 3*time.Second, scheduled)
	return err
}

func (u *user) awaitReady(ctx context.Context, all []thing, generations map[thing]int64) error {
	for _, db := range all {
		ready := func(o *unstructured.Unstructured) bool { return condition(o, "Ready", generations[db]) }
		if err := u.await(ctx, db, "ready", ready); err != nil {
			return err
		}
	}
	return nil
}
