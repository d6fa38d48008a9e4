package main

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

var groupVersion = schema.GroupVersion{Group: "ring.example.com", Version: "v1"}

func addToScheme(s *runtime.Scheme) {
	s.AddKnownTypes(groupVersion, &Ring{}, &RingList{})
	metav1.AddToGroupVersion(s, groupVersion)
}

// Ring is a database of several members, scaled by somebody else.
type Ring struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`
	Spec              RingSpec   `json:"spec,omitempty"`
	Status            RingStatus `json:"status,omitempty"`
}

// RingSpec is what the user wants.
type RingSpec struct {
	Size int64 `json:"size"`
}

// RingStatus is what the operator has done.
type RingStatus struct {
	Size int64 `json:"size,omitempty"` // the last one that the operator has brought about
}

// RingList is a list of rings.
type RingList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []Ring `json:"items"`
}

// DeepCopyObject implements runtime.Object.
func (r *Ring) DeepCopyObject() runtime.Object {
	out := *r
	r.DeepCopyInto(&out.ObjectMeta)
	return &out
}

// DeepCopyObject implements runtime.Object.
func (l *RingList) DeepCopyObject() runtime.Object {
	out := *l
	l.DeepCopyInto(&out.ListMeta)
	out.Items = make([]Ring, len(l.Items))
	for i := range l.Items {
		out.Items[i] = *l.Items[i].DeepCopyObject().(*Ring)
	}
	return &out
}
