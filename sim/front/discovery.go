package front

import (
	"crypto/sha512"
	"fmt"
	"net/http"
	"strings"

	"github.com/opreplay/opreplay/sim/fault"
	"github.com/opreplay/opreplay/sim/wire"
)

// whole has a document asked for so that it can be edited: in JSON, and sent whether or not the client has a copy.
// Clients that would rather have another form take JSON as well.
func whole(r *http.Request) {
	r.Header.Del("If-None-Match")
	accept := strings.Split(strings.Join(r.Header.Values("Accept"), ","), ",")
	var asJSON []string
	for _, form := range accept {
		switch media, _, _ := strings.Cut(strings.TrimSpace(form), ";"); media {
		case "application/json", "application/*", "*/*":
			asJSON = append(asJSON, strings.Replace(strings.TrimSpace(form), media, "application/json", 1))
		}
	}
	if len(asJSON) == 0 {
		asJSON = []string{"application/json"}
	}
	r.Header.Set("Accept", strings.Join(asJSON, ","))
}

// edited is an answer to what whole has asked for as a client gets it that has a copy by the tag COPIED, if any.
func edited(m wire.Handover, edit fault.Edit, copied string) wire.Handover {
	body, found := edit(m.Body)
	if !found {
		m.Code, m.Header, m.Body = fault.NotServed().Answer()
		return m
	}
	m.Body = body
	if m.Header.Get("Etag") == "" {
		return m
	}
	// k8s.io/apiserver/pkg/endpoints/discovery/aggregated (etag.go) names what it has not encoded yet; a client only
	// compares.
	tag := fmt.Sprintf("\"%X\"", sha512.Sum512(body))
	m.Header.Set("Etag", tag)
	if tag == copied {
		m.Code, m.Body = http.StatusNotModified, nil
		m.Header.Del("Content-Type")
	}
	return m
}
