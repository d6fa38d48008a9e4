package apicall

import (
	"bytes"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/opreplay/opreplay/traces"
)

// rowList takes a tap's rows.
type rowList struct{ rows []traces.Record }

func (l *rowList) Append(r traces.Record) error {
	l.rows = append(l.rows, r)
	return nil
}

func (l *rowList) Seq() int64 { return 0 }

// What a webhook says of a refused Secret is not recorded, in whatever form the answer goes over the wire, and
// whatever the client asked for the answer in.
func TestRefusalOfASecretInAnyForm(t *testing.T) {
	const word = "hunter2XcorrectXhorse"
	status := &metav1.Status{
		Status: metav1.StatusFailure, Code: http.StatusForbidden, Reason: metav1.StatusReasonForbidden,
		Message: `admission webhook "v.example.com" denied the request: the password ` + word + ` is weak`,
		Details: &metav1.StatusDetails{Name: "s", Causes: []metav1.StatusCause{{Message: word, Field: "data"}}},
	}
	policy := status.DeepCopy()
	policy.Message = `secrets "s" is forbidden: ValidatingAdmissionPolicy 'p' with binding 'b' denied request: ` + word
	for _, c := range []struct {
		name, media string
		body        []byte
	}{
		{"a webhook, protobuf", mediaProtobuf, protobufBody(t, "v1", "Status", status)},
		{"a policy, protobuf", mediaProtobuf, protobufBody(t, "v1", "Status", policy)},
		{"a webhook, JSON", mediaJSON, []byte(`{"kind":"Status","apiVersion":"v1","status":"Failure","code":403,"reason":"Forbidden","message":"admission webhook \"v\" denied the request: ` + word + `"}`)},
	} {
		out := &rowList{}
		tap := New(out, Options{Redact: Secrets([]byte("key"))})
		request := httptest.NewRequest(http.MethodPost, "/api/v1/namespaces/n/secrets", bytes.NewReader([]byte(`{"metadata":{"name":"s"}}`)))
		answered := tap.Open(httptest.NewRecorder(), request)
		answered.Writer().Header().Set("Content-Type", c.media)
		answered.Writer().WriteHeader(http.StatusForbidden)
		if _, err := answered.Writer().Write(c.body); err != nil {
			t.Fatal(err)
		}
		answered.Finish(true)
		row := out.rows[0].(*traces.Request)
		if row.Code != http.StatusForbidden || row.Reason != string(metav1.StatusReasonForbidden) || !strings.Contains(row.ResponseBody, Redacted) {
			t.Errorf("%s: %+v", c.name, row)
		}
		if strings.Contains(row.ResponseBody, word) || len(tap.Losses()) > 0 {
			t.Errorf("%s: recorded %s; losses %v", c.name, row.ResponseBody, tap.Losses())
		}
	}
}
