package scenario

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
)

// The field managers that kubectl uses.
const (
	creator = "kubectl-create"
	editor  = "kubectl-edit"
)

const (
	// patience is how long the user waits for what must come.
	patience = 30 * time.Second
	// blink is how often the user looks.
	blink = 25 * time.Millisecond
)

// user is somebody at kubectl, in one namespace.
type user struct {
	client    dynamic.Interface
	namespace string
}

func newUser(config *rest.Config, namespace string) (*user, error) {
	config = rest.CopyConfig(config)
	config.UserAgent = "kubectl"
	config.QPS = -1 // never wait for the client's own rate limit
	client, err := dynamic.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	return &user{client: client, namespace: namespace}, nil
}

// thing names an object that the user works on.
type thing struct {
	resource schema.GroupVersionResource
	name     string
}

func (t thing) String() string { return t.resource.Resource + "/" + t.name }

// of is the client for the thing's resource, in the user's namespace where there are namespaces.
func (u *user) of(t thing) dynamic.ResourceInterface {
	if t.resource == crds || t.resource == webhooks {
		return u.client.Resource(t.resource)
	}
	return u.client.Resource(t.resource).Namespace(u.namespace)
}

func (u *user) create(ctx context.Context, t thing, kind string, spec map[string]any) error {
	object := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": t.resource.GroupVersion().String(), "kind": kind,
		"metadata": map[string]any{"name": t.name}, // the namespace, where there is one, is that of the request
		"spec":     spec,
	}}
	_, err := u.of(t).Create(ctx, object, metav1.CreateOptions{FieldManager: creator})
	if err != nil {
		return fmt.Errorf("create %s: %w", t, err)
	}
	return nil
}

// apply creates an object of a manifest. Its resource is named by its kind, as those of all that manifests here have are.
func (u *user) apply(ctx context.Context, object *unstructured.Unstructured) error {
	kind := object.GroupVersionKind()
	resource := u.client.Resource(kind.GroupVersion().WithResource(strings.ToLower(kind.Kind) + "s"))
	var in dynamic.ResourceInterface = resource
	if namespace := object.GetNamespace(); namespace != "" {
		in = resource.Namespace(namespace)
	}
	_, err := in.Create(ctx, object, metav1.CreateOptions{FieldManager: creator})
	return err
}

// edit changes fields of the spec and returns the generation that this gave.
func (u *user) edit(ctx context.Context, t thing, spec map[string]any) (int64, error) {
	patch, err := json.Marshal(map[string]any{"spec": spec})
	if err != nil {
		return 0, err
	}
	object, err := u.of(t).Patch(ctx, t.name, types.MergePatchType, patch, metav1.PatchOptions{FieldManager: editor})
	if err != nil {
		return 0, fmt.Errorf("edit %s: %w", t, err)
	}
	return object.GetGeneration(), nil
}

// status changes fields of the status, as another controller does.
func (u *user) status(ctx context.Context, t thing, manager string, status map[string]any) error {
	patch, err := json.Marshal(map[string]any{"status": status})
	if err != nil {
		return err
	}
	_, err = u.of(t).Patch(ctx, t.name, types.MergePatchType, patch, metav1.PatchOptions{FieldManager: manager}, "status")
	if err != nil {
		return fmt.Errorf("status of %s: %w", t, err)
	}
	return nil
}

func (u *user) delete(ctx context.Context, t thing) error {
	if err := u.of(t).Delete(ctx, t.name, metav1.DeleteOptions{}); err != nil {
		return fmt.Errorf("delete %s: %w", t, err)
	}
	return nil
}

// look watches the thing for at most d until seen says that it is as the user wants it; nil means that it
// is gone. It reports whether that came to pass.
func (u *user) look(ctx context.Context, t thing, d time.Duration, seen func(*unstructured.Unstructured) bool) (bool, error) {
	err := wait.PollUntilContextTimeout(ctx, blink, d, true, func(ctx context.Context) (bool, error) {
		object, err := u.of(t).Get(ctx, t.name, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return seen(nil), nil
		}
		if err != nil {
			return false, err
		}
		return seen(object), nil
	})
	if wait.Interrupted(err) && ctx.Err() == nil {
		return false, nil
	}
	return err == nil, err
}

// await is look for what must come.
func (u *user) await(ctx context.Context, t thing, what string, seen func(*unstructured.Unstructured) bool) error {
	ok, err := u.look(ctx, t, patience, seen)
	if err != nil {
		return fmt.Errorf("wait for %s %s: %w", t, what, err)
	}
	if !ok {
		return fmt.Errorf("%s was not %s within %v", t, what, patience)
	}
	return nil
}

// rest waits at most d for the thing to stay unchanged for a while.
func (u *user) rest(ctx context.Context, t thing, still, d time.Duration) (bool, error) {
	var version string
	var since time.Time
	return u.look(ctx, t, d, func(object *unstructured.Unstructured) bool {
		if object == nil {
			return true
		}
		if v := object.GetResourceVersion(); v != version {
			version, since = v, time.Now()
		}
		return time.Since(since) >= still
	})
}

// established waits for a definition to be served.
func (u *user) established(ctx context.Context, crd string) error {
	err := wait.PollUntilContextTimeout(ctx, blink, patience, true, func(ctx context.Context) (bool, error) {
		object, err := u.client.Resource(crds).Get(ctx, crd, metav1.GetOptions{})
		if err != nil {
			return false, err
		}
		if !condition(object, "Established", 0) {
			return false, nil
		}
		group, _, _ := unstructured.NestedString(object.Object, "spec", "group")
		plural, _, _ := unstructured.NestedString(object.Object, "spec", "names", "plural")
		served := schema.GroupVersionResource{Group: group, Version: "v1", Resource: plural}
		_, err = u.client.Resource(served).List(ctx, metav1.ListOptions{Limit: 1})
		return err == nil, nil
	})
	if err != nil {
		return fmt.Errorf("wait for %s to be established: %w", crd, err)
	}
	return nil
}

func gone(object *unstructured.Unstructured) bool { return object == nil }

func ready(object *unstructured.Unstructured) bool { return condition(object, "Ready", 1) }

// condition says whether the object has the condition, true and for at least that generation.
func condition(object *unstructured.Unstructured, name string, generation int64) bool {
	if object == nil {
		return false
	}
	conditions, _, _ := unstructured.NestedSlice(object.Object, "status", "conditions")
	for _, c := range conditions {
		c, ok := c.(map[string]any)
		if !ok || c["type"] != name {
			continue
		}
		observed, _ := c["observedGeneration"].(int64)
		return c["status"] == "True" && observed >= generation
	}
	return false
}
