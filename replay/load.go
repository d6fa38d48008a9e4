package replay

import (
	"context"
	"errors"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/opreplay/opreplay/sim/apiserver"
)

// load puts the cluster as the operator found it into the API server. What that does not serve is left out and
// noted.
func load(ctx context.Context, s *apiserver.Server, script *Script) (note string, err error) {
	objects := make([]apiserver.Recorded, 0, len(script.Initial))
	for _, o := range script.Initial {
		if o.Group == "apiregistration.k8s.io" {
			continue // every cluster has them; the aggregator is no part of this API server
		}
		objects = append(objects, apiserver.Recorded{
			GroupVersionResource: schema.GroupVersionResource{Group: o.Group, Version: o.Version, Resource: o.Resource},
			Object:               []byte(o.JSON),
		})
	}
	err = s.Load(ctx, objects)
	if partly, ok := errors.AsType[*apiserver.LoadError](err); ok {
		return partly.Error(), nil
	}
	return "", err
}
