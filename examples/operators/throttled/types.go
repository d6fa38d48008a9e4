package main

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

var groupVersion = schema.GroupVersion{Group: "album.example.com", Version: "v1"}

func addToScheme(s *runtime.Scheme) {
	s.AddKnownTypes(groupVersion, &Album{}, &AlbumList{})
	metav1.AddToGroupVersion(s, groupVersion)
}

// Album is a number of pages.
type Album struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`
	Spec              AlbumSpec   `json:"spec,omitempty"`
	Status            AlbumStatus `json:"status,omitempty"`
}

// AlbumSpec is what the user wants.
type AlbumSpec struct {
	Pages int64 `json:"pages"`
}

// AlbumStatus is what the operator has done.
type AlbumStatus struct {
	Pages int64 `json:"pages,omitempty"`
}

// AlbumList is a list of them.
type AlbumList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []Album `json:"items"`
}

// DeepCopyObject implements runtime.Object.
func (a *Album) DeepCopyObject() runtime.Object {
	out := *a
	a.DeepCopyInto(&out.ObjectMeta)
	return &out
}

// DeepCopyObject implements runtime.Object.
func (l *AlbumList) DeepCopyObject() runtime.Object {
	out := *l
	l.DeepCopyInto(&out.ListMeta)
	out.Items = make([]Album, len(l.Items))
	for i := range l.Items {
		out.Items[i] = *l.Items[i].DeepCopyObject().(*Album)
	}
	return &out
}
