package scenario

import (
	"context"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
)

var exports = schema.GroupVersionResource{Group: "jobs.example.com", Version: "v1", Resource: "exports"}

// playExports has three exports made quickly, then one that takes long, and meanwhile the three again.
func playExports(ctx context.Context, u *user) error {
	small := []string{"bills", "mails", "users"}
	for _, name := range small {
		if err := u.create(ctx, thing{exports, name}, "Export", map[string]any{"table": name}); err != nil {
			return err
		}
		if err := u.work(ctx, name, name); err != nil {
			return err
		}
		if err := u.await(ctx, thing{exports, name}, "done", is("Done", "status", "phase")); err != nil {
			return err
		}
	}
	if err := u.create(ctx, thing{exports, "archive"}, "Export", map[string]any{"table": "archive"}); err != nil {
		return err
	}
	task := thing{configMaps, "archive-task"}
	if err := u.await(ctx, task, "given out", is("archive", "data", "table")); err != nil {
		return err
	}
	for _, name := range small {
		if _, err := u.edit(ctx, thing{exports, name}, map[string]any{"table": name + "-2"}); err != nil {
			return err
		}
	}
	if _, err := u.look(ctx, task, 13*time.Second, gone); err != nil {
		return err
	}
	if err := u.work(ctx, "archive", "archive"); err != nil {
		return err
	}
	for _, name := range small {
		if err := u.work(ctx, name, name+"-2"); err != nil {
			return err
		}
		if err := u.await(ctx, thing{exports, name}, "done again", is(int64(2), "status", "observedGeneration")); err != nil {
			return err
		}
	}
	return nil
}

// work is the worker that does a task: it waits for it to be given out, and says that it is done.
func (u *user) work(ctx context.Context, export, table string) error {
	task := thing{configMaps, export + "-task"}
	if err := u.await(ctx, task, "given out", is(table, "data", "table")); err != nil {
		return err
	}
	patch := []byte(`{"data":{"done":"` + table + `"}}`)
	_, err := u.client.Resource(configMaps).Namespace(u.namespace).Patch(ctx, task.name, types.MergePatchType, patch, metav1.PatchOptions{FieldManager: "worker"})
	return err
}
