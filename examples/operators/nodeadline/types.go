package main

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

var groupVersion = schema.GroupVersion{Group: "forms.example.com", Version: "v1"}

func addToScheme(s *runtime.Scheme) {
	s.AddKnownTypes(groupVersion, &Form{}, &FormList{})
	metav1.AddToGroupVersion(s, groupVersion)
}

// Form is a form that is to be filed.
type Form struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`
	Spec              FormSpec   `json:"spec,omitempty"`
	Status            FormStatus `json:"status,omitempty"`
}

// FormSpec is what the user wants.
type FormSpec struct {
	Text string `json:"text"`
}

// FormStatus is what the operator has done.
type FormStatus struct {
	Filed bool `json:"filed,omitempty"`
}

// FormList is a list of them.
type FormList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []Form `json:"items"`
}

// DeepCopyObject implements runtime.Object.
func (f *Form) DeepCopyObject() runtime.Object {
	out := *f
	f.DeepCopyInto(&out.ObjectMeta)
	return &out
}

// DeepCopyObject implements runtime.Object.
func (l *FormList) DeepCopyObject() runtime.Object {
	out := *l
	l.DeepCopyInto(&out.ListMeta)
	out.Items = make([]Form, len(l.Items))
	for i := range l.Items {
		out.Items[i] = *l.Items[i].DeepCopyObject().(*Form)
	}
	return &out
}
