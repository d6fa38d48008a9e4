package main

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

var groupVersion = schema.GroupVersion{Group: "jobs.example.com", Version: "v1"}

func addToScheme(s *runtime.Scheme) {
	s.AddKnownTypes(groupVersion, &Export{}, &ExportList{})
	metav1.AddToGroupVersion(s, groupVersion)
}

// Export is data that is to be written somewhere.
type Export struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`
	Spec              ExportSpec   `json:"spec,omitempty"`
	Status            ExportStatus `json:"status,omitempty"`
}

// ExportSpec is what the user wants.
type ExportSpec struct {
	Table string `json:"table"`
}

// ExportStatus is what the operator has done.
type ExportStatus struct {
	ObservedGeneration int64  `json:"observedGeneration,omitempty"`
	Phase              string `json:"phase,omitempty"`
}

// ExportList is a list of exports.
type ExportList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []Export `json:"items"`
}

// DeepCopyObject implements runtime.Object.
func (e *Export) DeepCopyObject() runtime.Object {
	out := *e
	e.DeepCopyInto(&out.ObjectMeta)
	return &out
}

// DeepCopyObject implements runtime.Object.
func (l *ExportList) DeepCopyObject() runtime.Object {
	out := *l
	l.DeepCopyInto(&out.ListMeta)
	out.Items = make([]Export, len(l.Items))
	for i := range l.Items {
		out.Items[i] = *l.Items[i].DeepCopyObject().(*Export)
	}
	return &out
}
