package main

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

var groupVersion = schema.GroupVersion{Group: "link.example.com", Version: "v1"}

func addToScheme(s *runtime.Scheme) {
	s.AddKnownTypes(groupVersion, &Link{}, &LinkList{})
	metav1.AddToGroupVersion(s, groupVersion)
}

// Link is a line to a peer.
type Link struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`
	Spec              LinkSpec   `json:"spec,omitempty"`
	Status            LinkStatus `json:"status,omitempty"`
}

// LinkSpec is what the user wants.
type LinkSpec struct {
	Peer string `json:"peer"`
}

// LinkStatus is what the operator has done.
type LinkStatus struct {
	Phase string `json:"phase,omitempty"`
}

// LinkList is a list of them.
type LinkList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []Link `json:"items"`
}

// DeepCopyObject implements runtime.Object.
func (l *Link) DeepCopyObject() runtime.Object {
	out := *l
	l.DeepCopyInto(&out.ObjectMeta)
	return &out
}

// DeepCopyObject implements runtime.Object.
func (l *LinkList) DeepCopyObject() runtime.Object {
	out := *l
	l.DeepCopyInto(&out.ListMeta)
	out.Items = make([]Link, len(l.Items))
	for i := range l.Items {
		out.Items[i] = *l.Items[i].DeepCopyObject().(*Link)
	}
	return &out
}
