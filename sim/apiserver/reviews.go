package apiserver

import (
	"io"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	authenticationapi "k8s.io/kubernetes/pkg/apis/authentication"
	authorizationapi "k8s.io/kubernetes/pkg/apis/authorization"
)

// timely encodes the answers of groups whose objects are never stored, so that they have the world's times
// as those have that come out of the store.
type timely struct {
	runtime.NegotiatedSerializer
	now func() time.Time
}

// unstored tells the groups whose objects are questions.
func unstored(group string) bool {
	return group == authenticationapi.GroupName || group == authorizationapi.GroupName
}

// EncoderForVersion implements runtime.NegotiatedSerializer.
func (t timely) EncoderForVersion(e runtime.Encoder, gv runtime.GroupVersioner) runtime.Encoder {
	return timelyEncoder{t.NegotiatedSerializer.EncoderForVersion(e, gv), t.now}
}

type timelyEncoder struct {
	runtime.Encoder
	now func() time.Time
}

// Encode implements runtime.Encoder.
func (e timelyEncoder) Encode(obj runtime.Object, w io.Writer) error {
	retime(obj, e.now())
	return e.Encoder.Encode(obj, w)
}

// retime puts the world's time into metadata where the wall clock's is, which is ahead of it.
func retime(obj runtime.Object, now time.Time) {
	m, err := meta.Accessor(obj)
	if err != nil {
		return
	}
	now = now.UTC().Truncate(time.Second)
	if t := m.GetCreationTimestamp(); t.After(now) {
		m.SetCreationTimestamp(metav1.NewTime(now))
	}
	fields := m.GetManagedFields()
	for i := range fields {
		if t := fields[i].Time; t != nil && t.After(now) {
			fields[i].Time = &metav1.Time{Time: now}
		}
	}
	if len(fields) > 0 {
		m.SetManagedFields(fields)
	}
}
