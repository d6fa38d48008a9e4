package scenario

import (
	"context"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

var brokers = schema.GroupVersionResource{Group: "mq.example.com", Version: "v1", Resource: "brokers"}

// playBrokers sets up two brokers, one after the other.
func playBrokers(ctx context.Context, u *user) error {
	for _, name := range []string{"orders", "mails"} {
		broker := thing{brokers, name}
		if err := u.create(ctx, broker, "Broker", map[string]any{"port": 5672}); err != nil {
			return err
		}
		if err := u.await(ctx, broker, "reachable", has("status", "endpoint")); err != nil {
			return err
		}
	}
	return nil
}

// has says whether the object has a value at the path, other than "" and 0.
func has(path ...string) func(*unstructured.Unstructured) bool {
	return func(object *unstructured.Unstructured) bool {
		if object == nil {
			return false
		}
		value, found, err := unstructured.NestedFieldNoCopy(object.Object, path...)
		return err == nil && found && value != "" && value != int64(0)
	}
}

// is says whether the object has that value at the path.
func is(want any, path ...string) func(*unstructured.Unstructured) bool {
	return func(object *unstructured.Unstructured) bool {
		if object == nil {
			return false
		}
		value, found, err := unstructured.NestedFieldNoCopy(object.Object, path...)
		return err == nil && found && value == want
	}
}
