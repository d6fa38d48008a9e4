package apiserver

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const v2Version = "  - {name: v2, served: true, storage: false, schema: {openAPIV3Schema: {type: object}}}\n"

// withV2 is a CRD with one more version, which a webhook converts to and from.
func withV2(crd string) string {
	return strings.Replace(crd, "  versions:\n", `  conversion:
    strategy: Webhook
    webhook: {conversionReviewVersions: [v1], clientConfig: {service: {name: hook, namespace: default, path: /convert}}}
  versions:
`+v2Version, 1)
}

// A conversion webhook has the time limit of a real API server's client, is told it, and a write that it fails is
// answered in the converter's words.
func TestConversionFails(t *testing.T) {
	w := newWorld(t, Options{Webhooks: Webhooks{Convert: func(*http.Request, *tls.Config) (*http.Response, error) {
		return nil, context.DeadlineExceeded
	}}})
	w.post(crdPath, asJSON(t, withV2(widgetCRD)))
	l := &teller{t: t, h: w.Handler()}
	body := l.do("POST", strings.Replace(widgetPath, "/v1/", "/v2/", 1), jsonType, strings.Replace(widget("a", ""), "/v1", "/v2", 1))
	var got metav1.Status
	if err := json.Unmarshal([]byte(body), &got); err != nil {
		t.Fatal(err)
	}
	const want = `conversion webhook for example.com/v2, Kind=Widget failed: Post "https://hook.default.svc:443/convert?timeout=30s": context deadline exceeded`
	if got.Code != http.StatusInternalServerError || got.Reason != metav1.StatusReasonUnknown || got.Message != want {
		t.Errorf("answered by %d %q %s\nwant 500 without a reason: %s", got.Code, got.Reason, got.Message, want)
	}
}

// A deleted CRD whose custom resources cannot be read waits, says so once, and goes when they can be.
func TestCRDWaitsForItsConverter(t *testing.T) {
	var converter func() (*http.Response, error)
	tries := 0
	w := newWorld(t, Options{Webhooks: Webhooks{Convert: func(*http.Request, *tls.Config) (*http.Response, error) {
		tries++
		return converter()
	}}})
	crd := asJSON(t, withV2(widgetCRD))
	w.post(crdPath, crd)
	w.post(widgetPath, widget("a", ""))
	// From now on objects are stored as v2; the one that is there is not.
	swap := `[{"op":"replace","path":"/spec/versions/0/storage","value":true},{"op":"replace","path":"/spec/versions/1/storage","value":false}]`
	w.must(http.StatusOK, http.MethodPatch, crdPath+"/widgets.example.com", "application/json-patch+json", swap)
	converter = func() (*http.Response, error) { return nil, fmt.Errorf("failure %d", tries) }
	w.must(http.StatusOK, http.MethodDelete, crdPath+"/widgets.example.com", jsonType, "")
	crdText := func() string { return mustJSON(t, w.get(crdPath+"/widgets.example.com")) }
	said := crdText()
	if !strings.Contains(said, "InstanceDeletionFailed") {
		t.Fatalf("the CRD does not say that it waits: %s", said)
	}
	if tries > 5 {
		t.Errorf("the converter was called %d times for one deletion", tries)
	}
	before := tries
	w.post(configMapPath, `{"metadata":{"name":"any"}}`)
	if tries == before {
		t.Error("not tried again after a write")
	}
	if now := crdText(); now != said {
		t.Errorf("a try that failed again was written down:\n%s\n%s", said, now)
	}
	converter = func() (*http.Response, error) { panic("a converter's bug") }
	func() {
		defer func() { _ = recover() }()
		_ = w.Settle(t.Context())
	}()
	converter = func() (*http.Response, error) { return nil, context.DeadlineExceeded }
	w.post(configMapPath, `{"metadata":{"name":"another"}}`) // is answered at all
	w.must(http.StatusOK, http.MethodPatch, crdPath+"/widgets.example.com", mergePatch, `{"spec":{"conversion":{"strategy":"None","webhook":null}}}`)
	if code, text := w.do(http.MethodGet, crdPath+"/widgets.example.com", "", ""); code != http.StatusNotFound {
		t.Errorf("the CRD is still there: %s", text)
	}
}
