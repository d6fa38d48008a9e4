package main

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

var groupVersion = schema.GroupVersion{Group: "note.example.com", Version: "v1"}

func addToScheme(s *runtime.Scheme) {
	s.AddKnownTypes(groupVersion, &Note{}, &NoteList{})
	metav1.AddToGroupVersion(s, groupVersion)
}

// Note is a text that is to be signed.
type Note struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`
	Spec              NoteSpec   `json:"spec,omitempty"`
	Status            NoteStatus `json:"status,omitempty"`
}

// NoteSpec is what the user wants.
type NoteSpec struct {
	Text string `json:"text"`
}

// NoteStatus is what the operator has done.
type NoteStatus struct {
	Kept bool `json:"kept,omitempty"`
}

// NoteList is a list of them.
type NoteList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []Note `json:"items"`
}

// DeepCopyObject implements runtime.Object.
func (n *Note) DeepCopyObject() runtime.Object {
	out := *n
	n.DeepCopyInto(&out.ObjectMeta)
	return &out
}

// DeepCopyObject implements runtime.Object.
func (l *NoteList) DeepCopyObject() runtime.Object {
	out := *l
	l.DeepCopyInto(&out.ListMeta)
	out.Items = make([]Note, len(l.Items))
	for i := range l.Items {
		out.Items[i] = *l.Items[i].DeepCopyObject().(*Note)
	}
	return &out
}
