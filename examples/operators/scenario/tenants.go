package scenario

import (
	"context"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

var tenants = schema.GroupVersionResource{Group: "tenancy.example.com", Version: "v1", Resource: "tenants"}

// playTenants takes on two tenants.
func playTenants(ctx context.Context, u *user) error {
	for _, name := range []string{"acme", "globex"} {
		tenant := thing{tenants, name}
		if err := u.create(ctx, tenant, "Tenant", map[string]any{"plan": "small"}); err != nil {
			return err
		}
		if err := u.await(ctx, tenant, "configured", is(true, "status", "configured")); err != nil {
			return err
		}
	}
	return nil
}
