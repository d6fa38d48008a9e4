package main

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

var groupVersion = schema.GroupVersion{Group: "dns.example.com", Version: "v1"}

func addToScheme(s *runtime.Scheme) {
	s.AddKnownTypes(groupVersion, &Zone{}, &ZoneList{}, &Record{}, &RecordList{})
	metav1.AddToGroupVersion(s, groupVersion)
}

// Zone is a DNS zone, in which Records lie.
type Zone struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`
	Spec              ZoneSpec `json:"spec,omitempty"`
}

// ZoneSpec is what the user wants.
type ZoneSpec struct {
	Domain string `json:"domain"`
}

// ZoneList is a list of zones.
type ZoneList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []Zone `json:"items"`
}

// Record is an address under a name of a zone.
type Record struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`
	Spec              RecordSpec   `json:"spec,omitempty"`
	Status            RecordStatus `json:"status,omitempty"`
}

// RecordSpec is what the user wants.
type RecordSpec struct {
	Zone    string `json:"zone"` // name of a Zone in the same namespace
	Address string `json:"address"`
}

// RecordStatus is what the operator has seen.
type RecordStatus struct {
	ObservedGeneration int64  `json:"observedGeneration,omitempty"`
	FQDN               string `json:"fqdn,omitempty"`
}

// RecordList is a list of records.
type RecordList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []Record `json:"items"`
}

// DeepCopyObject implements runtime.Object.
func (z *Zone) DeepCopyObject() runtime.Object {
	out := *z
	z.DeepCopyInto(&out.ObjectMeta)
	return &out
}

// DeepCopyObject implements runtime.Object.
func (l *ZoneList) DeepCopyObject() runtime.Object {
	out := *l
	l.DeepCopyInto(&out.ListMeta)
	out.Items = make([]Zone, len(l.Items))
	for i := range l.Items {
		out.Items[i] = *l.Items[i].DeepCopyObject().(*Zone)
	}
	return &out
}

// DeepCopyObject implements runtime.Object.
func (r *Record) DeepCopyObject() runtime.Object {
	out := *r
	r.DeepCopyInto(&out.ObjectMeta)
	return &out
}

// DeepCopyObject implements runtime.Object.
func (l *RecordList) DeepCopyObject() runtime.Object {
	out := *l
	l.DeepCopyInto(&out.ListMeta)
	out.Items = make([]Record, len(l.Items))
	for i := range l.Items {
		out.Items[i] = *l.Items[i].DeepCopyObject().(*Record)
	}
	return &out
}
