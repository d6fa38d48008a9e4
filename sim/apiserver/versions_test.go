package apiserver

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/kubernetes/pkg/controlplane"
)

func TestDefaultVersionsAreUpstreams(t *testing.T) {
	want, got := controlplane.DefaultAPIResourceConfigSource(), defaultVersions()
	if diff := cmp.Diff(want.GroupVersionConfigs, got.GroupVersionConfigs); diff != "" {
		t.Errorf("versions (- kube-apiserver, + ours):\n%s", diff)
	}
	if diff := cmp.Diff(want.ResourceConfigs, got.ResourceConfigs); diff != "" {
		t.Errorf("resources (- kube-apiserver, + ours):\n%s", diff)
	}
}
