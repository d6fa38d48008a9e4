package main

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

var groupVersion = schema.GroupVersion{Group: "gauge.example.com", Version: "v1"}

func addToScheme(s *runtime.Scheme) {
	s.AddKnownTypes(groupVersion, &Gauge{}, &GaugeList{})
	metav1.AddToGroupVersion(s, groupVersion)
}

// Gauge is something to read at an address.
type Gauge struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`
	Spec              GaugeSpec   `json:"spec,omitempty"`
	Status            GaugeStatus `json:"status,omitempty"`
}

// GaugeSpec is what the user wants.
type GaugeSpec struct {
	Address string `json:"address"`
}

// GaugeStatus is what the operator has done.
type GaugeStatus struct {
	Readings int64 `json:"readings,omitempty"`
}

// GaugeList is a list of them.
type GaugeList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []Gauge `json:"items"`
}

// DeepCopyObject implements runtime.Object.
func (g *Gauge) DeepCopyObject() runtime.Object {
	out := *g
	g.DeepCopyInto(&out.ObjectMeta)
	return &out
}

// DeepCopyObject implements runtime.Object.
func (l *GaugeList) DeepCopyObject() runtime.Object {
	out := *l
	l.DeepCopyInto(&out.ListMeta)
	out.Items = make([]Gauge, len(l.Items))
	for i := range l.Items {
		out.Items[i] = *l.Items[i].DeepCopyObject().(*Gauge)
	}
	return &out
}
