package main

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

var groupVersion = schema.GroupVersion{Group: "cache.example.com", Version: "v1"}

func addToScheme(s *runtime.Scheme) {
	s.AddKnownTypes(groupVersion, &Cache{}, &CacheList{})
	metav1.AddToGroupVersion(s, groupVersion)
}

// Cache is a cache to be run.
type Cache struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`
	Spec              CacheSpec   `json:"spec,omitempty"`
	Status            CacheStatus `json:"status,omitempty"`
}

// CacheSpec is what the user wants.
type CacheSpec struct {
	SizeMiB int64 `json:"sizeMiB"`
	// Eviction is newer than the definition that the cluster has.
	Eviction string `json:"eviction,omitempty"`
}

// CacheStatus is what the operator has done.
type CacheStatus struct {
	Ready bool `json:"ready,omitempty"`
}

// CacheList is a list of caches.
type CacheList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []Cache `json:"items"`
}

// DeepCopyObject implements runtime.Object.
func (c *Cache) DeepCopyObject() runtime.Object {
	out := *c
	c.DeepCopyInto(&out.ObjectMeta)
	return &out
}

// DeepCopyObject implements runtime.Object.
func (l *CacheList) DeepCopyObject() runtime.Object {
	out := *l
	l.DeepCopyInto(&out.ListMeta)
	out.Items = make([]Cache, len(l.Items))
	for i := range l.Items {
		out.Items[i] = *l.Items[i].DeepCopyObject().(*Cache)
	}
	return &out
}
