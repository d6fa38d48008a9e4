package apicall

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"strings"
	"testing"
)

func b64(s string) string { return base64.StdEncoding.EncodeToString([]byte(s)) }

func hashed(s string) string {
	h := hmac.New(sha256.New, []byte("key"))
	h.Write([]byte(s))
	return "redacted:hmac-sha256:" + hex.EncodeToString(h.Sum(nil))
}

func TestRedact(t *testing.T) {
	secret := Subject{Resource: "secrets"}
	quoted := func(s string) string {
		b, _ := json.Marshal(s)
		return string(b)
	}
	for name, c := range map[string]struct {
		subject   Subject
		doc, want string
	}{
		"object": {
			secret,
			`{"kind":"Secret", "metadata":{"name":"s","managedFields":[{"fieldsV1":{"f:data":{"f:k":{}}}}]},"data":{"k":"` + b64("pw") + `","empty":""},"stringData":{"k":"pw"},"type":"Opaque"}`,
			`{"kind":"Secret", "metadata":{"name":"s","managedFields":[{"fieldsV1":{"f:data":{"f:k":{}}}}]},"data":{"k":"` + b64(hashed("pw")) + `","empty":"` + b64(hashed("")) + `"},"stringData":{"k":"` + hashed("pw") + `"},"type":"Opaque"}`,
		},
		"a refusal that quotes the stored object": {
			secret,
			`{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":"cannot patch: \"password\":\"cHc=\"","reason":"Invalid","details":{"name":"s","causes":[{"message":"bad value cHc=","field":"data"}]},"code":422}`,
			`{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":"` + hashed(`cannot patch: "password":"cHc="`) + `","reason":"Invalid","details":{"name":"s","causes":[{"message":"` + hashed("bad value cHc=") + `","field":"data"}]},"code":422}`,
		},
		"a refusal that names names": {
			secret,
			`{"kind":"Status","apiVersion":"v1","status":"Failure","message":"secrets \"s\" not found","reason":"NotFound","code":404,"data":{"k":"cHc="}}`,
			`{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":"secrets \"s\" not found","reason":"NotFound","code":404}`,
		},
		"a refusal that names who": {
			secret,
			`{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":"secrets \"s\" is forbidden: User \"u\" cannot get resource","reason":"Forbidden","code":403}`,
			`{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":"secrets \"s\" is forbidden: User \"u\" cannot get resource","reason":"Forbidden","code":403}`,
		},
		"a webhook's refusal": {
			secret,
			`{"kind":"Status","apiVersion":"v1","metadata":{"continue":"pw"},"status":"Failure","message":"admission webhook \"v\" denied the request: password pw","reason":"NotFound","details":{"name":"pw"},"code":404}`,
			`{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":"` + hashed(`admission webhook "v" denied the request: password pw`) + `","reason":"NotFound","code":404}`,
		},
		"a webhook's reason": {
			secret,
			`{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":"admission webhook \"v\" denied the request: pw","reason":"pw","code":400}`,
			`{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":"` + hashed(`admission webhook "v" denied the request: pw`) + `","reason":"` + hashed("pw") + `","code":400}`,
		},
		"a policy's refusal": {
			secret,
			`{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":"secrets \"s\" is forbidden: ValidatingAdmissionPolicy 'p' with binding 'b' denied request: pw","reason":"Unauthorized","details":{"name":"s","causes":[{"message":"pw"}]},"code":401}`,
			`{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":"` + hashed(`secrets "s" is forbidden: ValidatingAdmissionPolicy 'p' with binding 'b' denied request: pw`) + `","reason":"Unauthorized","details":{"name":"s","causes":[{"message":"` + hashed("pw") + `"}]},"code":401}`,
		},
		"list": {
			secret, `{"kind":"SecretList","items":[{"data":{"k":"` + b64("a") + `"}},{"data":null}]}`,
			`{"kind":"SecretList","items":[{"data":{"k":"` + b64(hashed("a")) + `"}},{"data":null}]}`,
		},
		"table": {
			secret, `{"kind":"Table","rows":[{"cells":["s","Opaque"],"object":{"data":{"k":"` + b64("a") + `"}}}]}`,
			`{"kind":"Table","rows":[{"cells":["s","Opaque"],"object":{"data":{"k":"` + b64(hashed("a")) + `"}}}]}`,
		},
		"merge patch": {secret, `{"data":{"k":null,"l":"` + b64("a") + `"}}`, `{"data":{"k":null,"l":"` + b64(hashed("a")) + `"}}`},
		"strategic patch": {
			secret, `{"data":{"$patch":"replace","k":"` + b64("a") + `"}}`, `{"data":{"$patch":"replace","k":"` + b64(hashed("a")) + `"}}`,
		},
		"a secret as directive": {secret, `{"stringData":{"$patch":"pw"}}`, `{"stringData":{"$patch":"` + hashed("pw") + `"}}`},
		"json patch": {
			Subject{Resource: "secrets", JSONPatch: true},
			`[{"op":"add","path":"/data/a~1b","value":"` + b64("a") + `"},{"value":{"k":"pw"},"path":"/stringData","op":"add"},{"op":"replace","path":"","value":{"data":{"k":"` + b64("a") + `"}}},{"op":"remove","path":"/data/k"},{"op":"replace","path":"/type","value":"x"}]`,
			`[{"op":"add","path":"/data/a~1b","value":"` + b64(hashed("a")) + `"},{"value":{"k":"` + hashed("pw") + `"},"path":"/stringData","op":"add"},{"op":"replace","path":"","value":{"data":{"k":"` + b64(hashed("a")) + `"}}},{"op":"remove","path":"/data/k"},{"op":"replace","path":"/type","value":"x"}]`,
		},
		"json patch of the annotation": {
			Subject{Resource: "secrets", JSONPatch: true},
			`[{"op":"add","path":"/metadata/annotations/kubectl.kubernetes.io~1last-applied-configuration","value":` + quoted(`{"stringData":{"k":"pw"}}`) + `}]`,
			`[{"op":"add","path":"/metadata/annotations/kubectl.kubernetes.io~1last-applied-configuration","value":` + quoted(`{"stringData":{"k":"`+hashed("pw")+`"}}`) + `}]`,
		},
		"annotation": {
			secret, `{"metadata":{"annotations":{"kubectl.kubernetes.io/last-applied-configuration":` + quoted(`{"data":{"k":"`+b64("pw")+`"}}`+"\n") + `,"other":"pw"}}}`,
			`{"metadata":{"annotations":{"kubectl.kubernetes.io/last-applied-configuration":` + quoted(`{"data":{"k":"`+b64(hashed("pw"))+`"}}`+"\n") + `,"other":"pw"}}}`,
		},
		"annotation of rubbish": {
			secret, `{"metadata":{"annotations":{"kubectl.kubernetes.io/last-applied-configuration":"pw"}}}`,
			`{"metadata":{"annotations":{"kubectl.kubernetes.io/last-applied-configuration":"` + hashed("pw") + `"}}}`,
		},
		"escaped key":  {secret, `{"d\u0061ta":{"k":"` + b64("a") + `"}}`, `{"d\u0061ta":{"k":"` + b64(hashed("a")) + `"}}`},
		"misspelt key": {secret, `{"Data":{"k":"` + b64("a") + `"}}`, `{"Data":{"k":"` + b64(hashed("a")) + `"}}`},
		"no base64":    {secret, `{"data":{"k":"p-w"}}`, `{"data":{"k":"` + b64(hashed("p-w")) + `"}}`},
		"no string":    {secret, `{"data":{"k":{"x":"pw"}},"stringData":"pw"}`, `{"data":{"k":"` + b64(hashed(`{"x":"pw"}`)) + `"},"stringData":"` + hashed("pw") + `"}`},
		"twice":        {secret, `{"data":{"k":"` + b64(hashed("pw")) + `"}}`, `{"data":{"k":"` + b64(hashed("pw")) + `"}}`},
		"docker": {
			secret, `{"data":{".dockerconfigjson":"` + b64(`{"auths":{}}`) + `"}}`,
			`{"data":{".dockerconfigjson":"` + b64(`{"auths":"`+hashed(`{"auths":{}}`)+`"}`) + `"}}`,
		},
		"token request": {
			Subject{Resource: "serviceaccounts", Subresource: "token"},
			`{"spec":{"audiences":["a"]},"status":{"token":"pw"}}`,
			`{"spec":{"audiences":["a"]},"status":{"token":"` + hashed("pw") + `"}}`,
		},
		"token review": {
			Subject{Group: "authentication.k8s.io", Resource: "tokenreviews"},
			`{"spec":{"token":"pw"},"status":{"user":{}}}`,
			`{"spec":{"token":"` + hashed("pw") + `"},"status":{"user":{}}}`,
		},
		"no secret":    {Subject{Resource: "configmaps"}, `{"data":{"k":"pw"}}`, `{"data":{"k":"pw"}}`},
		"status":       {secret, `{"kind":"Status","message":"no"}`, `{"kind":"Status","message":"no"}`},
		"other group":  {Subject{Group: "zoo.example.com", Resource: "secrets"}, `{"data":{"k":"pw"}}`, `{"data":{"k":"pw"}}`},
		"sa, no token": {Subject{Resource: "serviceaccounts"}, `{"status":{"token":"pw"}}`, `{"status":{"token":"pw"}}`},
	} {
		got, err := Secrets([]byte("key")).Redact(c.subject, []byte(c.doc))
		if err != nil || string(got) != c.want || !json.Valid(got) {
			t.Errorf("%s:\n got %s, %v\nwant %s", name, got, err, c.want)
		}
		again, err := Secrets([]byte("another key")).Redact(c.subject, got)
		if err != nil || string(again) != string(got) {
			t.Errorf("%s: redacted twice: %s, %v", name, again, err)
		}
	}
	for _, broken := range []string{``, `{`, `{"data":{"k":"pw"`, `[`} {
		if got, err := Secrets(nil).Redact(secret, []byte(broken)); err == nil {
			t.Errorf("%q: no error, %q", broken, got)
		}
	}
}

// A secret planted anywhere in a Secret's text does not come out, whatever the form.
func FuzzRedact(f *testing.F) {
	const pw = "hunter2XcorrectXhorse"
	f.Add(`{"data":{"k":"%"},"metadata":{"annotations":{}}}`, false)
	f.Add(`[{"op":"add","path":"/data/k","value":"%"}]`, true)
	f.Add(`{"items":[{"stringData":{"a":["%"]}}]}`, false)
	f.Fuzz(func(t *testing.T, form string, patch bool) {
		doc := strings.ReplaceAll(form, "%", pw)
		var object struct{ Data, StringData map[string]string }
		if json.Unmarshal([]byte(doc), &object) != nil || patch {
			_, _ = Secrets([]byte("key")).Redact(Subject{Resource: "secrets", JSONPatch: patch}, []byte(doc))
			return
		}
		out, err := Secrets([]byte("key")).Redact(Subject{Resource: "secrets"}, []byte(doc))
		if err != nil {
			return // then nothing is recorded
		}
		var redacted struct{ Data, StringData map[string]string }
		if err := json.Unmarshal(out, &redacted); err != nil {
			t.Fatalf("%q became %q: %v", doc, out, err)
		}
		for _, values := range []map[string]string{redacted.Data, redacted.StringData} {
			for k, v := range values {
				if strings.Contains(v, pw) {
					t.Fatalf("%q: %s is %q", doc, k, v)
				}
			}
		}
	})
}
