package apiserver

import (
	"encoding/json"
	"net/http"
	"runtime"
	"slices"
	"strconv"
	"strings"

	apimachineryversion "k8s.io/apimachinery/pkg/version"
)

// firstEmulating is the first minor version of Kubernetes that tells which version it emulates.
const firstEmulating = 33

// version answers /version with the version that the world pretends to be. The embedded code knows its
// own only when it was linked in.
func (s *Server) version(h http.Handler) http.Handler {
	parts := strings.SplitN(strings.TrimPrefix(s.opts.Version, "v"), ".", 3)
	info := apimachineryversion.Info{
		Major: parts[0], GitVersion: s.opts.Version, GitCommit: "unknown", GitTreeState: "clean", BuildDate: "1970-01-01T00:00:00Z",
		GoVersion: runtime.Version(), Compiler: runtime.Compiler, Platform: "linux/amd64",
	}
	if len(parts) > 1 {
		info.Minor = parts[1]
	}
	if minor, err := strconv.Atoi(info.Minor); err == nil && minor >= firstEmulating {
		info.EmulationMajor, info.EmulationMinor = info.Major, info.Minor
		info.MinCompatibilityMajor, info.MinCompatibilityMinor = info.Major, strconv.Itoa(minor-1)
	}
	body, err := json.MarshalIndent(info, "", "  ")
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.TrimSuffix(r.URL.Path, "/") != "/version" || r.Method != http.MethodGet || err != nil || !acceptsJSON(r) {
			h.ServeHTTP(w, r)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write(body) // fails when the client left
	})
}

// acceptsJSON says it as github.com/emicklei/go-restful does, which routes /version.
func acceptsJSON(r *http.Request) bool {
	accept := strings.Split(r.Header.Get("Accept"), ",")
	return slices.ContainsFunc(accept, func(form string) bool {
		media, _, _ := strings.Cut(form, ";")
		switch strings.TrimSpace(media) {
		case "", "*/*", "application/json":
			return true
		}
		return false
	})
}
