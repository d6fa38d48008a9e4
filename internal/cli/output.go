package cli

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
)

// OutputFlag adds -o/--output to CMD. The first of FORMS is the default; any other value is a usage
// error and is offered to shell completion.
func OutputFlag(cmd *cobra.Command, into *string, forms ...string) {
	v := &choice{into: into, forms: forms}
	*into = forms[0]
	cmd.Flags().VarP(v, "output", "o", "output form: "+strings.Join(forms, ", "))
	Complete(cmd, "output", forms...)
}

// Complete has the shell offer these values for a flag.
func Complete(cmd *cobra.Command, flag string, values ...string) {
	_ = cmd.RegisterFlagCompletionFunc(flag, cobra.FixedCompletions(values, cobra.ShellCompDirectiveNoFileComp))
}

// choice is a pflag.Value that takes one of a few words.
type choice struct {
	into  *string
	forms []string
}

func (c *choice) String() string { return *c.into }
func (c *choice) Type() string   { return "form" }

func (c *choice) Set(s string) error {
	if !slices.Contains(c.forms, s) {
		return fmt.Errorf("must be one of %s", strings.Join(c.forms, ", "))
	}
	*c.into = s
	return nil
}
