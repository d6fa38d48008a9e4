package main

import (
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

var groupVersion = schema.GroupVersion{Group: "market.example.com", Version: "v1"}

func addToScheme(s *runtime.Scheme) {
	s.AddKnownTypes(groupVersion, &Stand{}, &StandList{})
	metav1.AddToGroupVersion(s, groupVersion)
}

// Stand is a stand of a market, which has staff.
type Stand struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`
	Spec              StandSpec   `json:"spec,omitempty"`
	Status            StandStatus `json:"status,omitempty"`
}

// StandSpec is what the user wants.
type StandSpec struct {
	Staff int64 `json:"staff"`
}

// StandStatus is what the operator has done.
type StandStatus struct {
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// StandList is a list of them.
type StandList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []Stand `json:"items"`
}

// DeepCopyObject implements runtime.Object.
func (s *Stand) DeepCopyObject() runtime.Object {
	out := *s
	s.DeepCopyInto(&out.ObjectMeta)
	out.Status.Conditions = slices.Clone(s.Status.Conditions)
	return &out
}

// DeepCopyObject implements runtime.Object.
func (l *StandList) DeepCopyObject() runtime.Object {
	out := *l
	l.DeepCopyInto(&out.ListMeta)
	out.Items = make([]Stand, len(l.Items))
	for i := range l.Items {
		out.Items[i] = *l.Items[i].DeepCopyObject().(*Stand)
	}
	return &out
}
