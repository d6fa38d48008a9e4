package replay

import (
	"context"
	"errors"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/opreplay/opreplay/sim/apiserver"
)

// load puts the cluster as the operator found it into the API server. What that does not serve is left out and
// noted.
func (r *run) load(ctx context.Context) error {
	objects := make([]apiserver.Recorded, 0, len(r.script.Initial))
	for _, o := range r.script.Initial {
		if o.Group == "apiregistration.k8s.io" {
			continue // every cluster has them; the aggregator is no part of this API server
		}
		objects = append(objects, apiserver.Recorded{
			GroupVersionResource: schema.GroupVersionResource{Group: o.Group, Version: o.Version, Resource: o.Resource},
			Object:               []byte(o.JSON),
		})
	}
	err := r.server.Load(ctx, objects)
	if partly, ok := errors.AsType[*apiserver.LoadError](err); ok {
		r.notes = append(r.notes, partly.Error())
		return nil
	}
	return err
}
