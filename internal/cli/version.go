package cli

import (
	"encoding/json"
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"
)

// Build is what a binary knows of itself.
type Build struct {
	Version  string `json:"version"` // module version, or "devel"
	Revision string `json:"revision,omitempty"`
	Modified bool   `json:"modified,omitempty"` // built from a tree with uncommitted changes
	Go       string `json:"go"`
	Platform string `json:"platform"`
	// Kubernetes is the version of the Kubernetes libraries that are linked in.
	Kubernetes string `json:"kubernetes,omitempty"`
}

// ThisBuild reads the running binary's build information.
func ThisBuild() Build {
	b := Build{Version: "devel", Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return b
	}
	if v := info.Main.Version; v != "" && v != "(devel)" {
		b.Version = v
	}
	for _, s := range info.Settings {
		switch s.Key {
		case "vcs.revision":
			b.Revision = s.Value
		case "vcs.modified":
			b.Modified = s.Value == "true"
		}
	}
	for _, d := range info.Deps {
		if d.Path == "k8s.io/client-go" {
			b.Kubernetes = d.Version
		}
	}
	return b
}

// NewVersionCmd makes the version subcommand of the program NAME.
func NewVersionCmd(name string) *cobra.Command {
	var output string
	cmd := &cobra.Command{
		Use:     "version",
		Short:   "Print the version of " + name + " and of the Kubernetes libraries in it",
		Example: "  " + name + " version\n  " + name + " version -o json",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			b := ThisBuild()
			if output == "json" {
				return WriteJSON(cmd.OutOrStdout(), b)
			}
			_, err := fmt.Fprintf(cmd.OutOrStdout(), "%s %s (%s, %s, client-go %s)\n", name, b.Version, b.Go, b.Platform, b.Kubernetes)
			return err
		},
	}
	OutputFlag(cmd, &output, "text", "json")
	return cmd
}

// WriteJSON prints V as indented JSON, as every command does under -o json.
func WriteJSON(w interface{ Write([]byte) (int, error) }, v any) error {
	enc := json.NewEncoder(w)
	enc.SetIndent("", "  ")
	enc.SetEscapeHTML(false)
	return enc.Encode(v)
}
