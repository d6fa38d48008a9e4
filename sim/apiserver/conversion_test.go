package apiserver

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// A conversion webhook has the time limit of a real API server's client, is told it, and a write that it fails is
// answered in the converter's words.
func TestConversionFails(t *testing.T) {
	w := newWorld(t, Options{Webhooks: Webhooks{Convert: func(*http.Request, *tls.Config) (*http.Response, error) {
		return nil, context.DeadlineExceeded
	}}})
	const v2 = `  conversion:
    strategy: Webhook
    webhook: {conversionReviewVersions: [v1], clientConfig: {service: {name: hook, namespace: default, path: /convert}}}
  versions:
  - {name: v2, served: true, storage: false, schema: {openAPIV3Schema: {type: object}}}
`
	w.post(crdPath, asJSON(t, strings.Replace(widgetCRD, "  versions:\n", v2, 1)))
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
