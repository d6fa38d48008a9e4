package scenario

import (
	"context"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

var caches = schema.GroupVersionResource{Group: "cache.example.com", Version: "v1", Resource: "caches"}

// playCaches asks for a cache, and looks at it for a while.
func playCaches(ctx context.Context, u *user) error {
	config := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "v1", "kind": "ConfigMap",
		"metadata": map[string]any{"namespace": u.namespace, "name": "pages", "labels": map[string]any{"cache.example.com/cache": "true"}},
		"data":     map[string]any{"sizeMiB": "64"},
	}}
	if _, err := u.client.Resource(configMaps).Namespace(u.namespace).Create(ctx, config, metav1.CreateOptions{FieldManager: creator}); err != nil {
		return fmt.Errorf("create configmap pages: %w", err)
	}
	pages := thing{caches, "pages"}
	if err := u.await(ctx, pages, "there", has("spec", "sizeMiB")); err != nil {
		return err
	}
	return u.stay(ctx, 12*time.Second)
}

// stay does nothing for a while.
func (u *user) stay(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
