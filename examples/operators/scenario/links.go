package scenario

import (
	"context"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
)

var links = schema.GroupVersionResource{Group: "link.example.com", Version: "v1", Resource: "links"}

// playLinks connects to a peer that is down, has the peer come up when the breaker is open, and waits for two minutes.
func playLinks(ctx context.Context, u *user) error {
	if err := u.data(ctx, "harbour", map[string]any{"up": "false"}); err != nil {
		return err
	}
	mail := thing{links, "mail"}
	if err := u.create(ctx, mail, "Link", map[string]any{"peer": "harbour"}); err != nil {
		return err
	}
	if err := u.await(ctx, mail, "tried", is("Failing", "status", "phase")); err != nil {
		return err
	}
	if err := u.stay(ctx, 12*time.Second); err != nil {
		return err
	}
	patch := []byte(`{"data":{"up":"true"}}`)
	if _, err := u.client.Resource(configMaps).Namespace(u.namespace).Patch(ctx, "harbour", types.MergePatchType, patch, metav1.PatchOptions{FieldManager: editor}); err != nil {
		return err
	}
	return u.stay(ctx, 125*time.Second)
}
