package main

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

var groupVersion = schema.GroupVersion{Group: "feed.example.com", Version: "v1"}

func addToScheme(s *runtime.Scheme) {
	s.AddKnownTypes(groupVersion, &Feed{}, &FeedList{})
	metav1.AddToGroupVersion(s, groupVersion)
}

// Feed is a page that is fetched.
type Feed struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`
	Spec              FeedSpec   `json:"spec,omitempty"`
	Status            FeedStatus `json:"status,omitempty"`
}

// FeedSpec is what the user wants.
type FeedSpec struct {
	Source string `json:"source"`
}

// FeedStatus is what the operator has done.
type FeedStatus struct {
	Phase string `json:"phase,omitempty"`
}

// FeedList is a list of them.
type FeedList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []Feed `json:"items"`
}

// DeepCopyObject implements runtime.Object.
func (f *Feed) DeepCopyObject() runtime.Object {
	out := *f
	f.DeepCopyInto(&out.ObjectMeta)
	return &out
}

// DeepCopyObject implements runtime.Object.
func (l *FeedList) DeepCopyObject() runtime.Object {
	out := *l
	l.DeepCopyInto(&out.ListMeta)
	out.Items = make([]Feed, len(l.Items))
	for i := range l.Items {
		out.Items[i] = *l.Items[i].DeepCopyObject().(*Feed)
	}
	return &out
}
