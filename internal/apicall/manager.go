package apicall

import (
	"net/http"
	"strings"
	"unicode"
	"unicode/utf8"
)

// fieldManagerMaxLength is FieldManagerMaxLength of
// k8s.io/apimachinery/pkg/apis/meta/v1/validation.
const fieldManagerMaxLength = 128

// fieldManager is the manager that the API server notes for a write: the query's fieldManager, else
// what stands before the first "/" of the User-Agent, without unprintable characters and cut to 128
// bytes (managerOrUserAgent in k8s.io/apiserver/pkg/endpoints/handlers/create.go). Other verbs have none.
func fieldManager(verb string, r *http.Request) string {
	switch verb {
	case "create", "update", "patch":
	default:
		return ""
	}
	if m := r.URL.Query().Get("fieldManager"); m != "" {
		return m
	}
	return agentName(r)
}

// agentName is the program's name in a User-Agent such as "manager/v1.2 (linux/amd64) kubernetes/abc".
func agentName(r *http.Request) string {
	agent, _, _ := strings.Cut(r.UserAgent(), "/")
	var name strings.Builder
	for _, c := range agent {
		if !unicode.IsPrint(c) {
			continue
		}
		if name.Len()+utf8.RuneLen(c) > fieldManagerMaxLength {
			break
		}
		name.WriteRune(c)
	}
	return name.String()
}
