package main

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"math/big"
	"net/http"
	"strings"
	"time"

	registrationv1 "k8s.io/api/admissionregistration/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/webhook"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"
)

var bundle []byte

// serveWebhooks makes a server with a certificate of its own, as operators without cert-manager do.
func serveWebhooks() (webhook.Server, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	c := &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: "busy"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour),
		DNSNames: []string{"busy.default.svc"}, IsCA: true, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, c, c, key.Public(), key)
	if err != nil {
		return nil, err
	}
	bundle = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	return webhook.NewServer(webhook.Options{Port: 9443, TLSOpts: []func(*tls.Config){func(t *tls.Config) {
		t.Certificates = []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}}
		t.GetCertificate = func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return &t.Certificates[0], nil }
	}}}), nil
}

// answers is a webhook in one function.
type answers func(context.Context, admission.Request) admission.Response

func (f answers) Handle(ctx context.Context, r admission.Request) admission.Response {
	return f(ctx, r)
}

func addWebhooks(ctx context.Context, mgr ctrl.Manager) error {
	s := mgr.GetWebhookServer()
	s.Register("/mutate", &webhook.Admission{Handler: answers(func(_ context.Context, r admission.Request) admission.Response {
		return labelled(r)
	})})
	s.Register("/validate", &webhook.Admission{Handler: answers(func(ctx context.Context, r admission.Request) admission.Response {
		// It takes its time, and asks the API server meanwhile.
		time.Sleep(20 * time.Millisecond)
		list := &registrationv1.ValidatingWebhookConfigurationList{}
		if err := mgr.GetAPIReader().List(ctx, list); err != nil {
			return admission.Errored(http.StatusInternalServerError, err)
		}
		if strings.HasPrefix(r.Name, "bad") {
			return admission.Denied("bad names are not wanted")
		}
		if strings.HasPrefix(r.Name, "slow") {
			time.Sleep(time.Minute)
		}
		return admission.Allowed("")
	})})
	return install(ctx, mgr)
}

// labelled gives the object a label.
func labelled(r admission.Request) admission.Response {
	obj := map[string]any{}
	if err := json.Unmarshal(r.Object.Raw, &obj); err != nil {
		return admission.Errored(http.StatusBadRequest, err)
	}
	meta := obj["metadata"].(map[string]any)
	labels, _ := meta["labels"].(map[string]any)
	if labels == nil {
		labels = map[string]any{}
	}
	labels["mutated"] = "yes"
	meta["labels"] = labels
	b, err := json.Marshal(obj)
	if err != nil {
		return admission.Errored(http.StatusInternalServerError, err)
	}
	return admission.PatchResponseFromRaw(r.Object.Raw, b)
}

func install(ctx context.Context, mgr ctrl.Manager) error {
	c, err := client.New(mgr.GetConfig(), client.Options{})
	if err != nil {
		return err
	}
	at := func(path string) registrationv1.WebhookClientConfig {
		return registrationv1.WebhookClientConfig{CABundle: bundle, Service: &registrationv1.ServiceReference{Namespace: "default", Name: "busy", Path: &path}}
	}
	none, equivalent, limit := registrationv1.SideEffectClassNone, registrationv1.Equivalent, int32(5)
	rules := []registrationv1.RuleWithOperations{{
		Operations: []registrationv1.OperationType{registrationv1.Create},
		Rule:       registrationv1.Rule{APIGroups: []string{"apps"}, APIVersions: []string{"v1"}, Resources: []string{"deployments"}},
	}}
	m := &registrationv1.MutatingWebhookConfiguration{}
	m.Name = "busy"
	if _, err := controllerutil.CreateOrUpdate(ctx, c, m, func() error {
		m.Webhooks = []registrationv1.MutatingWebhook{{
			Name: "mutate.busy.example", ClientConfig: at("/mutate"), Rules: rules, SideEffects: &none, MatchPolicy: &equivalent,
			TimeoutSeconds: &limit, AdmissionReviewVersions: []string{"v1"},
		}}
		return nil
	}); err != nil {
		return err
	}
	v := &registrationv1.ValidatingWebhookConfiguration{}
	v.Name = "busy"
	_, err = controllerutil.CreateOrUpdate(ctx, c, v, func() error {
		v.Webhooks = nil
		for i, policy := range []registrationv1.FailurePolicyType{registrationv1.Fail, registrationv1.Ignore} {
			v.Webhooks = append(v.Webhooks, registrationv1.ValidatingWebhook{
				Name: fmt.Sprintf("validate%d.busy.example", i), ClientConfig: at("/validate"), Rules: rules, SideEffects: &none,
				MatchPolicy: &equivalent, TimeoutSeconds: &limit, AdmissionReviewVersions: []string{"v1"}, FailurePolicy: &policy,
			})
		}
		return nil
	})
	return err
}
