package main

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

var groupVersion = schema.GroupVersion{Group: "grid.example.com", Version: "v1"}

func addToScheme(s *runtime.Scheme) {
	s.AddKnownTypes(groupVersion, &Grid{}, &GridList{})
	metav1.AddToGroupVersion(s, groupVersion)
}

// Grid is a number of panels to be set up.
type Grid struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`
	Spec              GridSpec   `json:"spec,omitempty"`
	Status            GridStatus `json:"status,omitempty"`
}

// GridSpec is what the user wants.
type GridSpec struct {
	Panels int64 `json:"panels"`
}

// GridStatus is what the operator has done.
type GridStatus struct {
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	Panels             int64 `json:"panels,omitempty"`
}

// GridList is a list of grids.
type GridList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []Grid `json:"items"`
}

// DeepCopyObject implements runtime.Object.
func (g *Grid) DeepCopyObject() runtime.Object {
	out := *g
	g.DeepCopyInto(&out.ObjectMeta)
	return &out
}

// DeepCopyObject implements runtime.Object.
func (l *GridList) DeepCopyObject() runtime.Object {
	out := *l
	l.DeepCopyInto(&out.ListMeta)
	out.Items = make([]Grid, len(l.Items))
	for i := range l.Items {
		out.Items[i] = *l.Items[i].DeepCopyObject().(*Grid)
	}
	return &out
}
