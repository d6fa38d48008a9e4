package main

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

var groupVersion = schema.GroupVersion{Group: "hotel.example.com", Version: "v1"}

func addToScheme(s *runtime.Scheme) {
	s.AddKnownTypes(groupVersion, &RoomType{}, &RoomTypeList{}, &Room{}, &RoomList{})
	metav1.AddToGroupVersion(s, groupVersion)
}

// RoomType is a type that rooms may have.
type RoomType struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`
	Spec              RoomTypeSpec `json:"spec,omitempty"`
}

// RoomTypeSpec is what the user wants.
type RoomTypeSpec struct {
	Beds int64 `json:"beds"`
}

// RoomTypeList is a list of them.
type RoomTypeList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []RoomType `json:"items"`
}

// DeepCopyObject implements runtime.Object.
func (r *RoomType) DeepCopyObject() runtime.Object {
	out := *r
	r.DeepCopyInto(&out.ObjectMeta)
	return &out
}

// DeepCopyObject implements runtime.Object.
func (l *RoomTypeList) DeepCopyObject() runtime.Object {
	out := *l
	l.DeepCopyInto(&out.ListMeta)
	out.Items = make([]RoomType, len(l.Items))
	for i := range l.Items {
		out.Items[i] = *l.Items[i].DeepCopyObject().(*RoomType)
	}
	return &out
}

// Room is a room of some type.
type Room struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`
	Spec              RoomSpec   `json:"spec,omitempty"`
	Status            RoomStatus `json:"status,omitempty"`
}

// RoomSpec is what the user wants.
type RoomSpec struct {
	Type string `json:"type"`
}

// RoomStatus is what the operator has done.
type RoomStatus struct {
	Beds int64 `json:"beds,omitempty"`
}

// RoomList is a list of them.
type RoomList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []Room `json:"items"`
}

// DeepCopyObject implements runtime.Object.
func (r *Room) DeepCopyObject() runtime.Object {
	out := *r
	r.DeepCopyInto(&out.ObjectMeta)
	return &out
}

// DeepCopyObject implements runtime.Object.
func (l *RoomList) DeepCopyObject() runtime.Object {
	out := *l
	l.DeepCopyInto(&out.ListMeta)
	out.Items = make([]Room, len(l.Items))
	for i := range l.Items {
		out.Items[i] = *l.Items[i].DeepCopyObject().(*Room)
	}
	return &out
}
