package replay

import (
	"context"
	"slices"
	"testing"

	"github.com/opreplay/opreplay/traces"
)

// Under RBAC a service account has no permission that no recorded role gives it; otherwise it has all.
func TestReplayRBAC(t *testing.T) {
	needVirtual(t)
	for _, rbac := range []bool{false, true} {
		k := caseTask(t, "orphanfinalizer", "--fixed")
		_, trace := k.run(t, func(o *Options) {
			found, err := resolve(context.Background(), o)
			if err != nil {
				t.Fatal(err)
			}
			robot := found[0].Identity
			robot.Users = []string{"system:serviceaccount:ops:robot"}
			o.RBAC, o.Operators[0].Identity, o.Operators[0].Name = rbac, robot, "op"
		})
		forbidden := 0
		all := rows[traces.Request](t, trace)
		all = slices.DeleteFunc(all, func(r *traces.Request) bool { return r.Process != "op" })
		for _, r := range all {
			if r.Code == 403 {
				forbidden++
			}
		}
		if len(all) == 0 || (forbidden > 0) != rbac {
			t.Errorf("RBAC %v: %d of %d calls forbidden", rbac, forbidden, len(all))
		}
	}
}
