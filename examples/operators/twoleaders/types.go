package main

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

var groupVersion = schema.GroupVersion{Group: "shop.example.com", Version: "v1"}

func addToScheme(s *runtime.Scheme) {
	s.AddKnownTypes(groupVersion, &Order{}, &OrderList{})
	metav1.AddToGroupVersion(s, groupVersion)
}

// Order is something that a customer has bought.
type Order struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`
	Spec              OrderSpec   `json:"spec,omitempty"`
	Status            OrderStatus `json:"status,omitempty"`
}

// OrderSpec is what the user wants.
type OrderSpec struct {
	Item string `json:"item"`
}

// OrderStatus is what the operator has done.
type OrderStatus struct {
	Invoice string `json:"invoice,omitempty"` // the name of the ConfigMap that is its invoice
}

// OrderList is a list of orders.
type OrderList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []Order `json:"items"`
}

// DeepCopyObject implements runtime.Object.
func (o *Order) DeepCopyObject() runtime.Object {
	out := *o
	o.DeepCopyInto(&out.ObjectMeta)
	return &out
}

// DeepCopyObject implements runtime.Object.
func (l *OrderList) DeepCopyObject() runtime.Object {
	out := *l
	l.DeepCopyInto(&out.ListMeta)
	out.Items = make([]Order, len(l.Items))
	for i := range l.Items {
		out.Items[i] = *l.Items[i].DeepCopyObject().(*Order)
	}
	return &out
}
