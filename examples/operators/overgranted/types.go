package main

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

var groupVersion = schema.GroupVersion{Group: "desk.example.com", Version: "v1"}

func addToScheme(s *runtime.Scheme) {
	s.AddKnownTypes(groupVersion, &Desk{}, &DeskList{})
	metav1.AddToGroupVersion(s, groupVersion)
}

// Desk is a desk with a sign.
type Desk struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`
	Spec              DeskSpec   `json:"spec,omitempty"`
	Status            DeskStatus `json:"status,omitempty"`
}

// DeskSpec is what the user wants.
type DeskSpec struct {
	Owner string `json:"owner"`
}

// DeskStatus is what the operator has done.
type DeskStatus struct {
	Owner string `json:"owner,omitempty"`
}

// DeskList is a list of them.
type DeskList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []Desk `json:"items"`
}

// DeepCopyObject implements runtime.Object.
func (d *Desk) DeepCopyObject() runtime.Object {
	out := *d
	d.DeepCopyInto(&out.ObjectMeta)
	return &out
}

// DeepCopyObject implements runtime.Object.
func (l *DeskList) DeepCopyObject() runtime.Object {
	out := *l
	l.DeepCopyInto(&out.ListMeta)
	out.Items = make([]Desk, len(l.Items))
	for i := range l.Items {
		out.Items[i] = *l.Items[i].DeepCopyObject().(*Desk)
	}
	return &out
}
