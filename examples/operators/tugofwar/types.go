package main

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

var groupVersion = schema.GroupVersion{Group: "load.example.com", Version: "v1"}

func addToScheme(s *runtime.Scheme) {
	s.AddKnownTypes(groupVersion, &Pool{}, &PoolList{})
	metav1.AddToGroupVersion(s, groupVersion)
}

// Pool is a set of workers that the load may scale.
type Pool struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`
	Spec              PoolSpec   `json:"spec,omitempty"`
	Status            PoolStatus `json:"status,omitempty"`
}

// PoolSpec is what the user wants.
type PoolSpec struct {
	Workers int32 `json:"workers"`
	// Autoscale gives the number of workers up to the load.
	Autoscale bool `json:"autoscale,omitempty"`
}

// PoolStatus is what the operator has done.
type PoolStatus struct {
	Ready bool `json:"ready,omitempty"`
}

// PoolList is a list of pools.
type PoolList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []Pool `json:"items"`
}

// DeepCopyObject implements runtime.Object.
func (p *Pool) DeepCopyObject() runtime.Object {
	out := *p
	p.DeepCopyInto(&out.ObjectMeta)
	return &out
}

// DeepCopyObject implements runtime.Object.
func (l *PoolList) DeepCopyObject() runtime.Object {
	out := *l
	l.DeepCopyInto(&out.ListMeta)
	out.Items = make([]Pool, len(l.Items))
	for i := range l.Items {
		out.Items[i] = *l.Items[i].DeepCopyObject().(*Pool)
	}
	return &out
}
