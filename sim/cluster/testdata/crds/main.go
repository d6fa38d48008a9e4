// Command crds watches CRDs: it makes three objects of each kind that comes, and takes the finalizers of their
// objects away when the kind goes.
package main

import (
	"context"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	ctrl "sigs.k8s.io/controller-runtime"
)

func main() {
	ctx := context.Background()
	client := dynamic.NewForConfigOrDie(ctrl.GetConfigOrDie())
	kinds := client.Resource(schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"})
	w, err := kinds.Watch(ctx, metav1.ListOptions{})
	if err != nil {
		panic(err)
	}
	for ev := range w.ResultChan() {
		crd := ev.Object.(*unstructured.Unstructured)
		gone := crd.GetDeletionTimestamp() != nil
		group, _, _ := unstructured.NestedString(crd.Object, "spec", "group")
		plural, _, _ := unstructured.NestedString(crd.Object, "spec", "names", "plural")
		objs := client.Resource(schema.GroupVersionResource{Group: group, Version: "v1", Resource: plural}).Namespace("default")
		conditions, _, _ := unstructured.NestedSlice(crd.Object, "status", "conditions")
		fmt.Println(ev.Type, crd.GetName(), crd.GetResourceVersion(), gone, len(conditions))
		switch {
		case ev.Type == "ADDED":
			for i := range 3 {
				o := &unstructured.Unstructured{Object: map[string]any{"apiVersion": group + "/v1", "kind": "Thing"}}
				o.SetName(fmt.Sprintf("thing-%d", i))
				if crd.GetLabels()["hold"] == "yes" {
					o.SetFinalizers([]string{"example.com/hold"})
				}
				_, err := objs.Create(ctx, o, metav1.CreateOptions{})
				fmt.Println("create", err)
			}
		case gone && ev.Type == "MODIFIED":
			time.Sleep(100 * time.Second)
			list, err := objs.List(ctx, metav1.ListOptions{})
			if err != nil {
				fmt.Println("list", err)
				continue
			}
			for i := range list.Items {
				list.Items[i].SetFinalizers(nil)
				_, err := objs.Update(ctx, &list.Items[i], metav1.UpdateOptions{})
				fmt.Println("free", list.Items[i].GetName(), err)
			}
		}
	}
}
