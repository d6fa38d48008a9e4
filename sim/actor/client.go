package actor

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// client speaks to the run's API server.
type client struct {
	via    http.RoundTripper
	agent  string
	accept string // "" is JSON

	mu    sync.Mutex
	known map[string]map[string]bool // GROUP/VERSION → RESOURCE[/SUBRESOURCE]
}

// answer is what a call brought.
type answer struct {
	code   int
	object map[string]any
}

func (a answer) ok() bool { return a.code >= 200 && a.code < 300 }

// message is the error text of a refusal.
func (a answer) message() string {
	if s, _ := a.object["message"].(string); s != "" {
		return s
	}
	return http.StatusText(a.code)
}

// reason is why it was refused. Two refusals may share a code: a create's 409 may be a Conflict as well, of a quota say.
func (a answer) reason() metav1.StatusReason {
	s, _ := a.object["reason"].(string)
	return metav1.StatusReason(s)
}

// call makes one request. An error means that there was no answer.
func (c *client) call(ctx context.Context, method, path string, query url.Values, contentType string, body any) (answer, error) {
	var payload io.Reader
	if body != nil {
		text, err := json.Marshal(body)
		if err != nil {
			return answer{}, fmt.Errorf("%s %s: encode the body: %w", method, path, err)
		}
		payload = bytes.NewReader(text)
	}
	u := url.URL{Scheme: "http", Host: "opsim", Path: path, RawQuery: query.Encode()}
	r, err := http.NewRequestWithContext(ctx, method, u.String(), payload)
	if err != nil {
		return answer{}, fmt.Errorf("%s %s: %w", method, path, err)
	}
	r.Header.Set("Accept", cmp.Or(c.accept, "application/json"))
	if c.agent != "" {
		r.Header.Set("User-Agent", c.agent)
	}
	if contentType != "" {
		r.Header.Set("Content-Type", contentType)
	}
	res, err := c.via.RoundTrip(r)
	if err != nil {
		return answer{}, fmt.Errorf("%s %s: %w", method, path, err)
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err != nil {
		return answer{}, fmt.Errorf("%s %s: read the answer: %w", method, path, err)
	}
	a := answer{code: res.StatusCode}
	if a.object, err = decode(string(text)); err != nil && a.ok() {
		return answer{}, fmt.Errorf("%s %s: %w", method, path, err)
	}
	return a, nil
}

func groupVersion(group, version string) string {
	if group == "" {
		return "/api/" + version
	}
	return "/apis/" + group + "/" + version
}

// path is an object's URL path; with an empty name that of its collection.
func (r Ref) path(subresource string) string {
	p := groupVersion(r.Group, r.Version)
	if r.Namespace != "" {
		p += "/namespaces/" + url.PathEscape(r.Namespace)
	}
	p += "/" + r.Resource
	if r.Name != "" {
		p += "/" + r.Name
	}
	if subresource != "" {
		p += "/" + subresource
	}
	return p
}

// has says whether the server serves RESOURCE, or RESOURCE/SUBRESOURCE, of the group and version. What is
// not known is looked up anew: CRDs come and go.
func (c *client) has(ctx context.Context, r Ref, subresource string) (bool, error) {
	gv := groupVersion(r.Group, r.Version)
	c.mu.Lock()
	known := c.known[gv]
	c.mu.Unlock()
	if !known[r.Resource] {
		var err error
		if known, err = c.discover(ctx, gv); err != nil {
			return false, err
		}
	}
	if subresource == "" {
		return known[r.Resource], nil
	}
	return known[r.Resource+"/"+subresource], nil
}

func (c *client) discover(ctx context.Context, gv string) (map[string]bool, error) {
	a, err := c.call(ctx, http.MethodGet, gv, nil, "", nil)
	if err != nil {
		return nil, err
	}
	found := map[string]bool{}
	l, _ := a.object["resources"].([]any)
	for _, e := range l {
		m, _ := e.(map[string]any)
		if name, _ := m["name"].(string); name != "" {
			found[name] = true
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.known == nil {
		c.known = map[string]map[string]bool{}
	}
	c.known[gv] = found
	return found, nil
}

// get reads an object; nil when it does not exist.
func (c *client) get(ctx context.Context, r Ref) (map[string]any, error) {
	a, err := c.call(ctx, http.MethodGet, r.path(""), nil, "", nil)
	switch {
	case err != nil:
		return nil, err
	case a.code == http.StatusNotFound:
		return nil, nil
	case !a.ok():
		return nil, fmt.Errorf("read %s: %s", r, a.message())
	}
	return a.object, nil
}

// manager is the query that has a write made in the name of a field manager; nil when NAME cannot be one.
func manager(name string) url.Values {
	if name == "" || strings.ContainsFunc(name, func(r rune) bool { return r < ' ' || r > '~' }) || len(name) > 128 {
		return nil
	}
	return url.Values{"fieldManager": {name}}
}
