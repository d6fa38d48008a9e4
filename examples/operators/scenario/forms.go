package scenario

import (
	"context"
	"encoding/base64"
	"encoding/pem"
	"net/http"
	"net/http/httptest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

var (
	forms    = schema.GroupVersionResource{Group: "forms.example.com", Version: "v1", Resource: "forms"}
	webhooks = schema.GroupVersionResource{Group: "admissionregistration.k8s.io", Version: "v1", Resource: "mutatingwebhookconfigurations"}
)

// playForms has a form filed while somebody's two webhooks do not answer, and another one when they are gone.
func playForms(ctx context.Context, u *user) error {
	asked := make(chan struct{})
	silent := httptest.NewTLSServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		select {
		case <-r.Context().Done():
		case <-asked:
		}
	}))
	defer silent.Close()
	defer close(asked)
	certificate := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: silent.Certificate().Raw})
	configuration := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "admissionregistration.k8s.io/v1", "kind": "MutatingWebhookConfiguration",
		"metadata": map[string]any{"name": "stamps"},
		"webhooks": []any{webhook("stamps.example.com", silent.URL, certificate), webhook("seals.example.com", silent.URL, certificate)},
	}}
	if _, err := u.client.Resource(webhooks).Create(ctx, configuration, metav1.CreateOptions{FieldManager: creator}); err != nil {
		return err
	}
	if err := u.stay(ctx, 2*time.Second); err != nil { // an API server asks a webhook a little after it was registered
		return err
	}
	tax, pass := thing{forms, "tax"}, thing{forms, "pass"}
	if err := u.create(ctx, tax, "Form", map[string]any{"text": "tax"}); err != nil {
		return err
	}
	if _, err := u.look(ctx, tax, 44*time.Second, is(true, "status", "filed")); err != nil {
		return err
	}
	if err := u.client.Resource(webhooks).Delete(ctx, "stamps", metav1.DeleteOptions{}); err != nil {
		return err
	}
	if err := u.create(ctx, pass, "Form", map[string]any{"text": "pass"}); err != nil {
		return err
	}
	for _, form := range []thing{tax, pass} {
		if err := u.await(ctx, form, "filed", is(true, "status", "filed")); err != nil {
			return err
		}
	}
	return nil
}

// webhook is one that is asked about new ConfigMaps, and may take 20 s.
func webhook(name, url string, certificate []byte) map[string]any {
	return map[string]any{
		"name": name, "failurePolicy": "Ignore", "sideEffects": "None", "timeoutSeconds": 20, "admissionReviewVersions": []any{"v1"},
		"clientConfig": map[string]any{"url": url, "caBundle": base64.StdEncoding.EncodeToString(certificate)},
		"rules": []any{map[string]any{
			"operations": []any{"CREATE"}, "apiGroups": []any{""}, "apiVersions": []any{"v1"}, "resources": []any{"configmaps"},
		}},
	}
}
