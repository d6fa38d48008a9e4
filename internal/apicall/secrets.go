package apicall

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"regexp"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Subject says what a document is that is to be redacted.
type Subject struct {
	Group, Resource, Subresource string
	// JSONPatch: the document is a list of JSON patch operations. Else it is an object, a list of
	// objects, or a patch that looks like one (merge, strategic merge, apply).
	JSONPatch bool
}

// Redactor replaces what must not reach the disk.
type Redactor interface {
	// Redact returns DOC, JSON text, with the secrets of it replaced; DOC itself where there are none.
	// After an error nothing of DOC may be recorded.
	Redact(s Subject, doc []byte) ([]byte, error)
}

// Redacted is what stands before the keyed hash that replaces a secret value.
const Redacted = "redacted:hmac-sha256:"

var redacted = regexp.MustCompile("^" + Redacted + "[0-9a-f]{64}$")

// Secrets replaces the values of Secrets (data and stringData, in objects, lists and patches of every
// kind, and in their kubectl.kubernetes.io/last-applied-configuration annotation) and the tokens of
// TokenRequest and TokenReview by "redacted:hmac-sha256:HEX", keyed with KEY: who holds the trace but
// not the key learns which values are equal, and no value. In data the text is base64 as the API wants
// it there, and JSON for the two docker keys, so that the object can be created again. A value that is
// already in that form stays.
//
// Whatever an operator copies elsewhere (a ConfigMap, an annotation of another object, its log) is not
// known to be secret and is recorded.
func Secrets(key []byte) Redactor { return &secrets{key: append([]byte(nil), key...)} }

type secrets struct{ key []byte }

const lastApplied = "kubectl.kubernetes.io/last-applied-configuration"

func (s *secrets) Redact(sub Subject, doc []byte) ([]byte, error) {
	w := &rewriter{secrets: s, doc: doc}
	switch {
	case sub.Group == "" && sub.Resource == "secrets":
		w.rule = secretRule
	case sub.Group == "" && sub.Resource == "serviceaccounts" && sub.Subresource == "token",
		sub.Group == "authentication.k8s.io" && sub.Resource == "tokenreviews":
		w.rule = tokenRule
	default:
		return doc, nil
	}
	if refused, ok, err := s.refusal(doc); ok || err != nil {
		return refused, err
	}
	i := skipSpace(doc, 0)
	end, err := skipValue(doc, i)
	if err != nil {
		return nil, err
	}
	if sub.JSONPatch {
		err = w.operations(span{i, end})
	} else {
		err = w.walk(nil, span{i, end})
	}
	if err != nil {
		return nil, err
	}
	return w.result(), nil
}

// reasons are the API server's own (k8s.io/apimachinery/pkg/apis/meta/v1), and whether it makes the message of names
// alone, where the refusal is its own too (k8s.io/apimachinery/pkg/api/errors).
var reasons = map[metav1.StatusReason]bool{
	metav1.StatusReasonNotFound: true, metav1.StatusReasonAlreadyExists: true, metav1.StatusReasonConflict: true,
	metav1.StatusReasonForbidden: true, metav1.StatusReasonUnauthorized: true, metav1.StatusReasonTooManyRequests: true,
	metav1.StatusReasonExpired: true, metav1.StatusReasonGone: true, metav1.StatusReasonMethodNotAllowed: true,

	metav1.StatusReasonUnknown: false, metav1.StatusReasonInvalid: false, metav1.StatusReasonServerTimeout: false,
	metav1.StatusReasonStoreReadError: false, metav1.StatusReasonTimeout: false, metav1.StatusReasonBadRequest: false,
	metav1.StatusReasonNotAcceptable: false, metav1.StatusReasonRequestEntityTooLarge: false,
	metav1.StatusReasonUnsupportedMediaType: false, metav1.StatusReasonInternalError: false, metav1.StatusReasonServiceUnavailable: false,
}

// webhook begins the message where an admission webhook refused, whose answer is the rest of the Status
// (k8s.io/apiserver/pkg/admission/plugin/webhook/errors).
const webhook = "admission webhook "

// ofNames is what the API server itself forbids: by authorization, a quota, or in a namespace that ends. What else is
// forbidden is so by an admission policy, in words of its author's.
var ofNames = regexp.MustCompile(`^[^ ]+( "[^"]*")? is forbidden: (User "|exceeded quota: |unable to create new content in namespace )`)

// harmless says that the message of a refusal is made of names alone.
func harmless(s *metav1.Status) bool {
	switch {
	case strings.HasPrefix(s.Message, webhook):
		return false
	case s.Reason == metav1.StatusReasonForbidden, strings.Contains(s.Message, " is forbidden: "):
		return reasons[s.Reason] && ofNames.MatchString(s.Message)
	}
	return reasons[s.Reason]
}

// refusal redacts a failed call's Status: its message may quote the object that was sent, or the stored one
// that a patch was for. ok is false when DOC is none.
func (s *secrets) refusal(doc []byte) (out []byte, ok bool, err error) {
	if !bytes.Contains(doc, []byte(`"Status"`)) {
		return nil, false, nil
	}
	var status metav1.Status
	if json.Unmarshal(doc, &status) != nil || status.Kind != "Status" || status.APIVersion != "v1" || status.Status == metav1.StatusSuccess {
		return nil, false, nil
	}
	if !harmless(&status) {
		s.wordless(&status)
	}
	out, err = json.Marshal(status) // no more of DOC than a Status has
	return out, true, err
}

// wordless takes out of a Status what may quote an object.
func (s *secrets) wordless(status *metav1.Status) {
	if strings.HasPrefix(status.Message, webhook) {
		status.ListMeta, status.Details = metav1.ListMeta{}, nil
	}
	if _, known := reasons[status.Reason]; !known {
		status.Reason = metav1.StatusReason(s.hash([]byte(status.Reason)))
	}
	if status.Message != "" {
		status.Message = s.hash([]byte(status.Message))
	}
	if d := status.Details; d != nil {
		for i, c := range d.Causes {
			d.Causes[i].Message = s.hash([]byte(c.Message))
		}
	}
}

// hash replaces a value.
func (s *secrets) hash(value []byte) string {
	if redacted.Match(value) {
		return string(value)
	}
	h := hmac.New(sha256.New, s.key)
	h.Write(value)
	return Redacted + hex.EncodeToString(h.Sum(nil))
}

// action is what a rule does with the value at a path.
type action int

const (
	keep action = iota
	enter
	plain   // a secret in plain text
	encoded // a secret in base64
	nested  // an object as JSON within a string
)

// secretRule walks a Secret, or a patch of one.
func secretRule(path []string) action {
	switch {
	case len(path) == 0:
		return enter
	// A misspelt key is refused or dropped by the API server; the attempt may hold the secret all the same.
	case strings.EqualFold(path[0], "data"), strings.EqualFold(path[0], "stringData"):
		if len(path) == 1 {
			return enter
		}
		if strings.EqualFold(path[0], "data") {
			return encoded
		}
		return plain
	case path[0] == "metadata":
		switch {
		case len(path) == 1, len(path) == 2 && path[1] == "annotations":
			return enter
		case len(path) == 3 && path[1] == "annotations" && path[2] == lastApplied:
			return nested
		}
	}
	return keep
}

// tokenRule walks a TokenRequest (status.token) or a TokenReview (spec.token).
func tokenRule(path []string) action {
	switch {
	case len(path) == 0, len(path) == 1 && (path[0] == "spec" || path[0] == "status"):
		return enter
	case len(path) == 2 && path[1] == "token":
		return plain
	}
	return keep
}

// rewriter collects the edits of one document, in order of place.
type rewriter struct {
	secrets *secrets
	rule    func(path []string) action
	doc     []byte
	edits   []edit
}

type edit struct {
	span
	text []byte
}

func (w *rewriter) result() []byte {
	if len(w.edits) == 0 {
		return w.doc
	}
	var out []byte
	at := 0
	for _, e := range w.edits {
		out = append(append(out, w.doc[at:e.start]...), e.text...)
		at = e.end
	}
	return append(out, w.doc[at:]...)
}

// operations walks a JSON patch: each operation's value as what stands at its path.
func (w *rewriter) operations(v span) error {
	if !isArray(w.doc, v) {
		return errSyntax
	}
	_, err := elements(w.doc, v.start, func(op span) error {
		var path string
		var values []span
		_, err := members(w.doc, op.start, func(key string, v span) error {
			switch key {
			case "path":
				path = text(w.doc, v)
			case "value":
				values = append(values, v)
			}
			return nil
		})
		if err != nil {
			return err
		}
		for _, v := range values {
			if err := w.walk(pointer(path), v); err != nil {
				return err
			}
		}
		return nil
	})
	return err
}

// pointer takes a JSON pointer (RFC 6901) apart.
func pointer(p string) []string {
	if p == "" {
		return nil
	}
	parts := strings.Split(strings.TrimPrefix(p, "/"), "/")
	for i, s := range parts {
		parts[i] = strings.NewReplacer("~1", "/", "~0", "~").Replace(s)
	}
	return parts
}

func (w *rewriter) walk(path []string, v span) error {
	switch act := w.rule(path); act {
	case enter:
		return w.enter(path, v)
	case plain, encoded:
		return w.replace(act, path[len(path)-1], v)
	case nested:
		return w.nested(v)
	default:
		return nil
	}
}

// enter walks the members of an object whose place may hold secrets. Anything else in such a place is
// a mistake of the client, and is replaced whole where it might be the secret itself.
func (w *rewriter) enter(path []string, v span) error {
	if !isObject(w.doc, v) {
		if len(path) == 1 && path[0] != "metadata" && string(v.of(w.doc)) != "null" {
			return w.replace(plain, path[0], v)
		}
		return nil
	}
	_, err := members(w.doc, v.start, func(key string, v span) error {
		if len(path) == 0 && (key == "items" || key == "rows") && isArray(w.doc, v) {
			return w.list(key, v)
		}
		return w.walk(append(path[:len(path):len(path)], key), v)
	})
	return err
}

// list walks the items of a list or the objects of a Table's rows.
func (w *rewriter) list(key string, v span) error {
	_, err := elements(w.doc, v.start, func(v span) error {
		if key == "items" {
			return w.walk(nil, v)
		}
		if !isObject(w.doc, v) {
			return nil
		}
		_, err := members(w.doc, v.start, func(key string, v span) error {
			if key == "object" {
				return w.walk(nil, v)
			}
			return nil
		})
		return err
	})
	return err
}

// directives are the values of "$patch" in a strategic merge patch; no Secret key may begin with "$".
var directives = map[string]bool{"replace": true, "merge": true, "delete": true}

func (w *rewriter) replace(act action, key string, v span) error {
	raw := v.of(w.doc)
	if string(raw) == "null" {
		return nil
	}
	value, err := unquote(raw)
	if err != nil || raw[0] != '"' {
		value = string(raw)
	}
	if key == "$patch" && directives[value] {
		return nil
	}
	secret := []byte(value)
	if act == encoded {
		if b, err := base64.StdEncoding.DecodeString(value); err == nil {
			secret = b
		}
	}
	text := w.secrets.docker(key, secret)
	if act == encoded {
		text = base64.StdEncoding.EncodeToString([]byte(text))
	}
	return w.edit(v, text)
}

// docker is the replacement of a value; the API server takes the values of .dockercfg and
// .dockerconfigjson only as JSON objects.
func (s *secrets) docker(key string, value []byte) string {
	if key != ".dockercfg" && key != ".dockerconfigjson" {
		return s.hash(value)
	}
	var already map[string]string
	if json.Unmarshal(value, &already) == nil && len(already) == 1 && redacted.MatchString(already["auths"]) {
		return string(value)
	}
	return `{"auths":"` + s.hash(value) + `"}`
}

// nested redacts an object within a string by the same rule.
func (w *rewriter) nested(v span) error {
	inner, err := unquote(v.of(w.doc))
	if err != nil || w.doc[v.start] != '"' {
		return w.replace(plain, "", v)
	}
	if !json.Valid([]byte(inner)) {
		return w.replace(plain, "", v)
	}
	n := &rewriter{secrets: w.secrets, rule: w.rule, doc: []byte(inner)}
	start := skipSpace(n.doc, 0)
	end, err := skipValue(n.doc, start)
	if err == nil {
		err = n.walk(nil, span{start, end})
	}
	if err != nil {
		return w.replace(plain, "", v)
	}
	return w.edit(v, string(n.result()))
}

func (w *rewriter) edit(v span, text string) error {
	quoted, err := json.Marshal(text)
	if err != nil {
		return err
	}
	w.edits = append(w.edits, edit{v, quoted})
	return nil
}
