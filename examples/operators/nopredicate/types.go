package main

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

var groupVersion = schema.GroupVersion{Group: "sense.example.com", Version: "v1"}

func addToScheme(s *runtime.Scheme) {
	s.AddKnownTypes(groupVersion, &Sensor{}, &SensorList{})
	metav1.AddToGroupVersion(s, groupVersion)
}

// Sensor is a sensor that an agent reads.
type Sensor struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`
	Spec              SensorSpec   `json:"spec,omitempty"`
	Status            SensorStatus `json:"status,omitempty"`
}

// SensorSpec is what the user wants.
type SensorSpec struct {
	Unit string `json:"unit"`
}

// SensorStatus is what the operator has done.
type SensorStatus struct {
	Reading int64 `json:"reading,omitempty"`
}

// SensorList is a list of them.
type SensorList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []Sensor `json:"items"`
}

// DeepCopyObject implements runtime.Object.
func (s *Sensor) DeepCopyObject() runtime.Object {
	out := *s
	s.DeepCopyInto(&out.ObjectMeta)
	return &out
}

// DeepCopyObject implements runtime.Object.
func (l *SensorList) DeepCopyObject() runtime.Object {
	out := *l
	l.DeepCopyInto(&out.ListMeta)
	out.Items = make([]Sensor, len(l.Items))
	for i := range l.Items {
		out.Items[i] = *l.Items[i].DeepCopyObject().(*Sensor)
	}
	return &out
}
