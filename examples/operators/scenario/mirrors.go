package scenario

import (
	"context"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

var mirrors = schema.GroupVersionResource{Group: "copy.example.com", Version: "v1", Resource: "mirrors"}

// playMirrors has one ConfigMap copied that is there, and one that never comes, which takes the user a while to give up.
func playMirrors(ctx context.Context, u *user) error {
	logo, flags := thing{mirrors, "logo"}, thing{mirrors, "flags"}
	if err := u.data(ctx, "logo-source", map[string]any{"shape": "round"}); err != nil {
		return err
	}
	if err := u.create(ctx, logo, "Mirror", map[string]any{"source": "logo-source"}); err != nil {
		return err
	}
	if err := u.await(ctx, logo, "copied", is("Copied", "status", "phase")); err != nil {
		return err
	}
	if err := u.create(ctx, flags, "Mirror", map[string]any{"source": "flags-source"}); err != nil {
		return err
	}
	_, err := u.look(ctx, flags, 6*time.Second, is("Copied", "status", "phase"))
	return err
}

// data creates a ConfigMap.
func (u *user) data(ctx context.Context, name string, data map[string]any) error {
	object := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"namespace": u.namespace, "name": name}, "data": data,
	}}
	_, err := u.client.Resource(configMaps).Namespace(u.namespace).Create(ctx, object, metav1.CreateOptions{FieldManager: creator})
	return err
}
