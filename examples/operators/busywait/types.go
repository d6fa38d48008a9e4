package main

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

var groupVersion = schema.GroupVersion{Group: "timer.example.com", Version: "v1"}

func addToScheme(s *runtime.Scheme) {
	s.AddKnownTypes(groupVersion, &Timer{}, &TimerList{})
	metav1.AddToGroupVersion(s, groupVersion)
}

// Timer is a time to wait.
type Timer struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`
	Spec              TimerSpec   `json:"spec,omitempty"`
	Status            TimerStatus `json:"status,omitempty"`
}

// TimerSpec is what the user wants.
type TimerSpec struct {
	Seconds int64 `json:"seconds"`
}

// TimerStatus is what the operator has done.
type TimerStatus struct {
	Rung bool `json:"rung,omitempty"`
}

// TimerList is a list of them.
type TimerList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []Timer `json:"items"`
}

// DeepCopyObject implements runtime.Object.
func (t *Timer) DeepCopyObject() runtime.Object {
	out := *t
	t.DeepCopyInto(&out.ObjectMeta)
	return &out
}

// DeepCopyObject implements runtime.Object.
func (l *TimerList) DeepCopyObject() runtime.Object {
	out := *l
	l.DeepCopyInto(&out.ListMeta)
	out.Items = make([]Timer, len(l.Items))
	for i := range l.Items {
		out.Items[i] = *l.Items[i].DeepCopyObject().(*Timer)
	}
	return &out
}
