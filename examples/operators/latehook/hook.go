package main

import (
	"context"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"net/http"
	"net/http/httptest"
	"time"

	admissionv1 "k8s.io/api/admission/v1"
	registrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
)

// hook is the operator's webhook. It listens on loopback with the certificate of package httptest, so that it works where
// the API server runs on the same machine, and needs nobody who makes certificates.
type hook struct {
	client client.Client
	policy registrationv1.FailurePolicyType
	ready  chan struct{} // closed when it has its key
}

// Start implements manager.Runnable: it registers the webhook, and gets the key that it signs with, which takes a while.
func (h *hook) Start(ctx context.Context) error {
	server := httptest.NewTLSServer(http.HandlerFunc(h.answer))
	defer server.Close()
	if err := h.register(ctx, server); err != nil {
		return fmt.Errorf("register the webhook: %w", err)
	}
	select {
	case <-time.After(warmUp):
		close(h.ready)
		<-ctx.Done()
	case <-ctx.Done():
	}
	return nil
}

// register has the API server ask the webhook.
func (h *hook) register(ctx context.Context, server *httptest.Server) error {
	configuration := &registrationv1.MutatingWebhookConfiguration{ObjectMeta: metav1.ObjectMeta{Name: hookName}}
	none := registrationv1.SideEffectClassNone
	_, err := controllerutil.CreateOrUpdate(ctx, h.client, configuration, func() error {
		configuration.Webhooks = []registrationv1.MutatingWebhook{{
			Name: "sign.note.example.com", FailurePolicy: &h.policy, SideEffects: &none, AdmissionReviewVersions: []string{"v1"},
			ClientConfig: registrationv1.WebhookClientConfig{
				URL:      &server.URL,
				CABundle: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}),
			},
			ObjectSelector: &metav1.LabelSelector{MatchLabels: map[string]string{keptLabel: "true"}},
			Rules: []registrationv1.RuleWithOperations{{
				Operations: []registrationv1.OperationType{registrationv1.Create},
				Rule:       registrationv1.Rule{APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: []string{"configmaps"}},
			}},
		}}
		return nil
	})
	return err
}

// answer signs a ConfigMap, once there is a key.
func (h *hook) answer(w http.ResponseWriter, r *http.Request) {
	select {
	case <-h.ready:
	default:
		http.Error(w, "no key yet", http.StatusServiceUnavailable)
		return
	}
	review := &admissionv1.AdmissionReview{}
	if err := json.NewDecoder(r.Body).Decode(review); err != nil || review.Request == nil {
		http.Error(w, "no review", http.StatusBadRequest)
		return
	}
	patch := admissionv1.PatchTypeJSONPatch
	review.Response = &admissionv1.AdmissionResponse{
		UID: review.Request.UID, Allowed: true, PatchType: &patch,
		Patch: []byte(`[{"op": "add", "path": "/data/signed", "value": "by the keeper"}]`),
	}
	review.Request = nil
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(review) // whoever asks no longer listens
}
