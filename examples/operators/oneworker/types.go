package main

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

var groupVersion = schema.GroupVersion{Group: "travel.example.com", Version: "v1"}

func addToScheme(s *runtime.Scheme) {
	s.AddKnownTypes(groupVersion, &Ticket{}, &TicketList{})
	metav1.AddToGroupVersion(s, groupVersion)
}

// Ticket is a journey to be booked.
type Ticket struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`
	Spec              TicketSpec   `json:"spec,omitempty"`
	Status            TicketStatus `json:"status,omitempty"`
}

// TicketSpec is what the user wants.
type TicketSpec struct {
	To string `json:"to"`
}

// TicketStatus is what the operator has done.
type TicketStatus struct {
	Booked string `json:"booked,omitempty"`
}

// TicketList is a list of them.
type TicketList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []Ticket `json:"items"`
}

// DeepCopyObject implements runtime.Object.
func (t *Ticket) DeepCopyObject() runtime.Object {
	out := *t
	t.DeepCopyInto(&out.ObjectMeta)
	return &out
}

// DeepCopyObject implements runtime.Object.
func (l *TicketList) DeepCopyObject() runtime.Object {
	out := *l
	l.DeepCopyInto(&out.ListMeta)
	out.Items = make([]Ticket, len(l.Items))
	for i := range l.Items {
		out.Items[i] = *l.Items[i].DeepCopyObject().(*Ticket)
	}
	return &out
}
