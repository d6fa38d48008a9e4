package serve

import (
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"

	"github.com/opreplay/opreplay/sim/apiserver"
)

// convert answers a ConversionReview: versions differ in nothing but their name.
func convert(t *testing.T) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var review apiextensionsv1.ConversionReview
		if err := json.NewDecoder(r.Body).Decode(&review); err != nil {
			t.Error(err)
			return
		}
		review.Response = &apiextensionsv1.ConversionResponse{UID: review.Request.UID, Result: metav1.Status{Status: metav1.StatusSuccess}}
		for _, o := range review.Request.Objects {
			text := strings.Replace(string(o.Raw), "example.com/v1", review.Request.DesiredAPIVersion, 1)
			review.Response.ConvertedObjects = append(review.Response.ConvertedObjects, runtime.RawExtension{Raw: []byte(text)})
		}
		review.Request = nil
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(review) // fails when the client left
	})
}

// A live world's conversion webhooks are called over the network.
func TestConversionOverTheNetwork(t *testing.T) {
	hook := httptest.NewTLSServer(convert(t))
	defer hook.Close()
	ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: hook.Certificate().Raw})
	server, l := open(t, apiserver.Options{Live: true, Webhooks: Webhooks()})
	defer l.Close() //nolint:errcheck // test
	version := func(name string, storage bool) any {
		return map[string]any{"name": name, "served": true, "storage": storage, "schema": map[string]any{"openAPIV3Schema": map[string]any{"type": "object"}}}
	}
	crd := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": map[string]any{"name": "cups.example.com"},
		"spec": map[string]any{
			"group": "example.com", "scope": "Cluster", "names": map[string]any{"plural": "cups", "kind": "Cup"},
			"versions": []any{version("v1", true), version("v2", false)},
			"conversion": map[string]any{"strategy": "Webhook", "webhook": map[string]any{
				"conversionReviewVersions": []any{"v1"},
				"clientConfig":             map[string]any{"url": hook.URL + "/convert", "caBundle": base64.StdEncoding.EncodeToString(ca)},
			}},
		},
	}}
	client := dynamic.NewForConfigOrDie(server.Config(apiserver.Admin))
	crds := schema.GroupVersionResource{Group: apiextensionsv1.GroupName, Version: "v1", Resource: "customresourcedefinitions"}
	if _, err := client.Resource(crds).Create(t.Context(), crd, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	cups := schema.GroupVersionResource{Group: "example.com", Version: "v1", Resource: "cups"}
	cup := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "example.com/v1", "kind": "Cup", "metadata": map[string]any{"name": "c"}}}
	if _, err := client.Resource(cups).Create(t.Context(), cup, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	cups.Version = "v2"
	got, err := client.Resource(cups).Get(t.Context(), "c", metav1.GetOptions{})
	if err != nil || got.GetAPIVersion() != "example.com/v2" {
		t.Errorf("as v2: %v, %v", got, err)
	}
}
