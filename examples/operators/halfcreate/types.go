package main

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

var groupVersion = schema.GroupVersion{Group: "mq.example.com", Version: "v1"}

func addToScheme(s *runtime.Scheme) {
	s.AddKnownTypes(groupVersion, &Broker{}, &BrokerList{})
	metav1.AddToGroupVersion(s, groupVersion)
}

// Broker is a message broker.
type Broker struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`
	Spec              BrokerSpec   `json:"spec,omitempty"`
	Status            BrokerStatus `json:"status,omitempty"`
}

// BrokerSpec is what the user wants.
type BrokerSpec struct {
	Port int64 `json:"port"`
}

// BrokerStatus is what the operator has done.
type BrokerStatus struct {
	ObservedGeneration int64  `json:"observedGeneration,omitempty"`
	Endpoint           string `json:"endpoint,omitempty"`
}

// BrokerList is a list of brokers.
type BrokerList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []Broker `json:"items"`
}

// DeepCopyObject implements runtime.Object.
func (b *Broker) DeepCopyObject() runtime.Object {
	out := *b
	b.DeepCopyInto(&out.ObjectMeta)
	return &out
}

// DeepCopyObject implements runtime.Object.
func (l *BrokerList) DeepCopyObject() runtime.Object {
	out := *l
	l.DeepCopyInto(&out.ListMeta)
	out.Items = make([]Broker, len(l.Items))
	for i := range l.Items {
		out.Items[i] = *l.Items[i].DeepCopyObject().(*Broker)
	}
	return &out
}
