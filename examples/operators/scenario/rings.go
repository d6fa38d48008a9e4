package scenario

import (
	"context"
	"fmt"
	"strconv"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

var rings = schema.GroupVersionResource{Group: "ring.example.com", Version: "v1", Resource: "rings"}

// playRings is an autoscaler and the machines that it starts: a ring of 3 members grows to 5 and becomes 3 again.
func playRings(ctx context.Context, u *user) error {
	ring := thing{rings, "main"}
	if err := u.create(ctx, ring, "Ring", map[string]any{"size": 3}); err != nil {
		return err
	}
	if err := u.enrol(ctx, ring, 0, 3); err != nil {
		return err
	}
	if _, err := u.edit(ctx, ring, map[string]any{"size": 5}); err != nil {
		return err
	}
	if err := u.enrol(ctx, ring, 3, 5); err != nil {
		return err
	}
	if _, err := u.edit(ctx, ring, map[string]any{"size": 3}); err != nil {
		return err
	}
	for _, i := range []int64{3, 4} {
		if err := u.await(ctx, member(ring, i), "removed", gone); err != nil {
			return err
		}
	}
	return u.await(ctx, ring, "small", is(int64(3), "status", "size"))
}

func member(ring thing, index int64) thing {
	return thing{configMaps, fmt.Sprintf("%s-member-%d", ring.name, index)}
}

// enrol waits until the ring has been brought to the size, and has the machines from an index on join it.
func (u *user) enrol(ctx context.Context, ring thing, from, size int64) error {
	if err := u.await(ctx, ring, "ready for members", is(size, "status", "size")); err != nil {
		return err
	}
	for i := from; i < size; i++ {
		t := member(ring, i)
		object := &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": "v1", "kind": "ConfigMap",
			"metadata": map[string]any{"namespace": u.namespace, "name": t.name, "labels": map[string]any{
				"ring.example.com/ring": ring.name, "ring.example.com/index": strconv.FormatInt(i, 10),
			}},
		}}
		_, err := u.client.Resource(t.resource).Namespace(u.namespace).Create(ctx, object, metav1.CreateOptions{FieldManager: "machine"})
		if err != nil {
			return fmt.Errorf("enrol %s: %w", t, err)
		}
	}
	return nil
}
