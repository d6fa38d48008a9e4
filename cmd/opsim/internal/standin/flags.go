package standin

import (
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// ignored declares flags of the real program that mean nothing here.
func ignored(cmd *cobra.Command, why string, names ...string) {
	for _, name := range names {
		cmd.Flags().String(name, "", "without effect: no "+why)
		cmd.Flags().Lookup(name).NoOptDefVal = "true" // some are switches
	}
}

// tolerant has the command take the flags of the real program that it does not know. [noEffect] says so.
func tolerant(cmd *cobra.Command) {
	cmd.FParseErrWhitelist = cobra.FParseErrWhitelist{UnknownFlags: true}
	cmd.Flags().SetNormalizeFunc(func(_ *pflag.FlagSet, name string) pflag.NormalizedName {
		return pflag.NormalizedName(strings.ReplaceAll(name, "_", "-")) // as Kubernetes' programs do
	})
}

// noEffect says on standard error which of the given flags mean nothing here. envtest shows it when
// KUBEBUILDER_ATTACH_CONTROL_PLANE_OUTPUT is true.
func noEffect(cmd *cobra.Command) {
	for _, arg := range os.Args[1:] {
		name, _, _ := strings.Cut(strings.TrimLeft(arg, "-"), "=")
		if strings.HasPrefix(arg, "-") && cmd.Flags().Lookup(name) == nil && cmd.Flags().ShorthandLookup(name[:min(1, len(name))]) == nil {
			_, _ = fmt.Fprintf(cmd.ErrOrStderr(), "%s: this is opsim: --%s has no effect\n", cmd.Name(), name)
		}
	}
}
