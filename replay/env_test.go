package replay

import (
	"slices"
	"strings"
	"testing"

	"github.com/opreplay/opreplay/sim/process/virtual"
)

// TestUsersEnv: what the user says of the garbage collector is what the operator sees, in place of ours.
func TestUsersEnv(t *testing.T) {
	of := func(env []string) []string {
		return slices.DeleteFunc(env, func(kv string) bool { return !strings.HasPrefix(kv, "GOGC=") })
	}
	if got := of(withEnv(virtual.GoEnv(), nil)); !slices.Equal(got, []string{"GOGC=400"}) {
		t.Errorf("by default: %q", got)
	}
	if got := of(withEnv(virtual.GoEnv(), []string{"GOGC=100"})); !slices.Equal(got, []string{"GOGC=100"}) {
		t.Errorf("with GOGC=100: %q", got)
	}
}
