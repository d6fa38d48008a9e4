package replay

import (
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"sync"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/scheme"

	"github.com/opreplay/opreplay/sim/fault"
	"github.com/opreplay/opreplay/sim/store"
	"github.com/opreplay/opreplay/traces"
)

// hints are the uids and generated names that the recorded cluster gave to what the operator created. The n-th
// object created under a name gets those of the n-th recorded one, so that the two runs compare as they are.
type hints struct {
	mu    sync.Mutex
	known map[hintKey][]store.Hint
}

type hintKey struct {
	group, resource, namespace string
	name                       string // or generateName and a *
}

func newHints(writes []*traces.Request) *hints {
	h := &hints{known: map[hintKey][]store.Hint{}}
	for _, r := range writes {
		if r.Verb != "create" || r.Subresource != "" || r.UID == "" || !succeeded(r) {
			continue
		}
		hint := store.Hint{UID: types.UID(r.UID)}
		k := hintKey{r.Group, r.Resource, r.Namespace, r.Name}
		if base := generateName(r); base != "" {
			k.name, hint.Name = base+"*", r.Name
		}
		h.known[k] = append(h.known[k], hint)
	}
	return h
}

// take reserves the hint for a create. give must be called when the create is over: a hint that was not
// used goes to the next.
func (h *hints) take(c fault.Call, body bodyMeta) (hint store.Hint, give func(used bool)) {
	k := hintKey{c.Group, c.Resource, c.Namespace, body.Name}
	if body.Name == "" {
		k.name = body.GenerateName + "*"
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	left := h.known[k]
	if len(left) == 0 {
		return store.Hint{}, func(bool) {}
	}
	hint, h.known[k] = left[0], left[1:]
	return hint, func(used bool) {
		if used {
			return
		}
		h.mu.Lock()
		defer h.mu.Unlock()
		h.known[k] = append([]store.Hint{hint}, h.known[k]...)
	}
}

// bodyMeta is what a create's body says of the name.
type bodyMeta struct {
	Name         string `json:"name"`
	GenerateName string `json:"generateName"`
}

// peek reads a create's name without taking the body. The Tap in front made the body readable again.
func peek(r *http.Request) bodyMeta {
	if r.GetBody == nil {
		return bodyMeta{}
	}
	body, err := r.GetBody()
	if err != nil {
		return bodyMeta{}
	}
	defer body.Close() //nolint:errcheck // bytes in memory
	text, err := io.ReadAll(body)
	if err != nil {
		return bodyMeta{}
	}
	if strings.Contains(r.Header.Get("Content-Type"), "json") {
		var o struct {
			Metadata bodyMeta `json:"metadata"`
		}
		_ = json.Unmarshal(text, &o) // the API server will say what is wrong with it
		return o.Metadata
	}
	obj, _, err := scheme.Codecs.UniversalDeserializer().Decode(text, nil, nil)
	if err != nil {
		return bodyMeta{}
	}
	m, err := meta.Accessor(obj)
	if err != nil {
		return bodyMeta{}
	}
	return bodyMeta{m.GetName(), m.GetGenerateName()}
}
