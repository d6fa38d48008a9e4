// Command converter has a kind of two versions: it serves the webhook that converts between them, and
// watches its objects in the version in which they are not stored.
package main

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"math/big"
	"net/http"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	ctrl "sigs.k8s.io/controller-runtime"
)

func main() {
	if err := run(); err != nil {
		panic(err)
	}
}

func run() error {
	cert, bundle, err := certificate()
	if err != nil {
		return err
	}
	s := &http.Server{
		Addr: ":9443", Handler: http.HandlerFunc(convert), ReadHeaderTimeout: time.Minute,
		TLSConfig: &tls.Config{Certificates: []tls.Certificate{cert}, MinVersion: tls.VersionTLS12},
	}
	go func() { panic(s.ListenAndServeTLS("", "")) }()
	client, err := dynamic.NewForConfig(ctrl.GetConfigOrDie())
	if err != nil {
		return err
	}
	ctx := context.Background()
	kinds := client.Resource(schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"})
	if _, err := kinds.Create(ctx, kind(bundle), metav1.CreateOptions{}); err != nil {
		return err
	}
	v2 := client.Resource(schema.GroupVersionResource{Group: "example.com", Version: "v2", Resource: "cups"})
	for {
		w, err := v2.Watch(ctx, metav1.ListOptions{})
		if err != nil {
			return err
		}
		for ev := range w.ResultChan() {
			if u, ok := ev.Object.(*unstructured.Unstructured); ok {
				fmt.Println(ev.Type, u.GetAPIVersion(), u.GetName(), u.Object["spec"])
			} else {
				fmt.Println(ev.Type, ev.Object)
			}
		}
		time.Sleep(time.Second)
	}
}

func certificate() (cert tls.Certificate, bundle []byte, err error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return cert, nil, err
	}
	c := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "busy"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour),
		DNSNames: []string{"busy.default.svc"}, IsCA: true, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, c, c, key.Public(), key)
	if err != nil {
		return cert, nil, err
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), nil
}

// kind is stored as v1.
func kind(bundle []byte) *unstructured.Unstructured {
	version := func(name, field string, storage bool) map[string]any {
		return map[string]any{
			"name": name, "served": true, "storage": storage,
			"schema": map[string]any{"openAPIV3Schema": map[string]any{"type": "object", "properties": map[string]any{
				"spec": map[string]any{"type": "object", "properties": map[string]any{field: map[string]any{"type": "integer"}}},
			}}},
		}
	}
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": map[string]any{"name": "cups.example.com"},
		"spec": map[string]any{
			"group": "example.com", "scope": "Namespaced",
			"names":    map[string]any{"plural": "cups", "singular": "cup", "kind": "Cup", "listKind": "CupList"},
			"versions": []any{version("v1", "decilitres", true), version("v2", "millilitres", false)},
			"conversion": map[string]any{"strategy": "Webhook", "webhook": map[string]any{
				"conversionReviewVersions": []any{"v1"},
				"clientConfig": map[string]any{
					"caBundle": base64.StdEncoding.EncodeToString(bundle),
					"service":  map[string]any{"name": "busy", "namespace": "default", "path": "/convert"},
				},
			}},
		},
	}}
}

// convert answers a ConversionReview. Objects named slow take their time.
func convert(w http.ResponseWriter, r *http.Request) {
	var review struct {
		APIVersion, Kind string
		Request          struct {
			UID               string
			DesiredAPIVersion string
			Objects           []map[string]any
		}
	}
	if err := json.NewDecoder(r.Body).Decode(&review); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	for _, o := range review.Request.Objects {
		if o["metadata"].(map[string]any)["name"] == "slow" {
			time.Sleep(time.Minute)
		}
		o["apiVersion"] = review.Request.DesiredAPIVersion
		spec, _ := o["spec"].(map[string]any)
		if v, ok := spec["decilitres"].(float64); ok && review.Request.DesiredAPIVersion == "example.com/v2" {
			o["spec"] = map[string]any{"millilitres": v * 100}
		}
		if v, ok := spec["millilitres"].(float64); ok && review.Request.DesiredAPIVersion == "example.com/v1" {
			o["spec"] = map[string]any{"decilitres": v / 100}
		}
	}
	time.Sleep(5 * time.Millisecond)
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(map[string]any{"apiVersion": review.APIVersion, "kind": review.Kind, "response": map[string]any{
		"uid": review.Request.UID, "result": map[string]any{"status": "Success"}, "convertedObjects": review.Request.Objects,
	}})
}
