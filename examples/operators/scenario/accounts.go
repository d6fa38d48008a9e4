package scenario

import (
	"context"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

var accounts = schema.GroupVersionResource{Group: "billing.example.com", Version: "v1", Resource: "accounts"}

// playAccounts opens two accounts.
func playAccounts(ctx context.Context, u *user) error {
	for _, name := range []string{"acme", "globex"} {
		account := thing{accounts, name}
		if err := u.create(ctx, account, "Account", map[string]any{"customer": name}); err != nil {
			return err
		}
		if err := u.await(ctx, account, "open", has("status", "number")); err != nil {
			return err
		}
	}
	return nil
}
