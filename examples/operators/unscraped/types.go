package main

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

var groupVersion = schema.GroupVersion{Group: "station.example.com", Version: "v1"}

func addToScheme(s *runtime.Scheme) {
	s.AddKnownTypes(groupVersion, &Station{}, &StationList{})
	metav1.AddToGroupVersion(s, groupVersion)
}

// Station is a weather station, which has metrics.
type Station struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`
	Spec              StationSpec   `json:"spec,omitempty"`
	Status            StationStatus `json:"status,omitempty"`
}

// StationSpec is what the user wants.
type StationSpec struct {
	Port int64 `json:"port"`
}

// StationStatus is what the operator has done.
type StationStatus struct {
	Monitored bool `json:"monitored,omitempty"`
}

// StationList is a list of them.
type StationList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []Station `json:"items"`
}

// DeepCopyObject implements runtime.Object.
func (s *Station) DeepCopyObject() runtime.Object {
	out := *s
	s.DeepCopyInto(&out.ObjectMeta)
	return &out
}

// DeepCopyObject implements runtime.Object.
func (l *StationList) DeepCopyObject() runtime.Object {
	out := *l
	l.DeepCopyInto(&out.ListMeta)
	out.Items = make([]Station, len(l.Items))
	for i := range l.Items {
		out.Items[i] = *l.Items[i].DeepCopyObject().(*Station)
	}
	return &out
}
