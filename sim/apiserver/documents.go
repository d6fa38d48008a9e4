package apiserver

import (
	"fmt"
	"net/http"
	"strings"
	"sync"

	crdserver "k8s.io/apiextensions-apiserver/pkg/apiserver"
	utilversion "k8s.io/apimachinery/pkg/util/version"
	openapinamer "k8s.io/apiserver/pkg/endpoints/openapi"
	genericapiserver "k8s.io/apiserver/pkg/server"
	"k8s.io/apiserver/pkg/server/routes"
	aggregatorscheme "k8s.io/kube-aggregator/pkg/apiserver/scheme"
	openapicommon "k8s.io/kube-openapi/pkg/common"
	"k8s.io/kube-openapi/pkg/spec3"
	"k8s.io/kube-openapi/pkg/validation/spec"
	"k8s.io/kubernetes/pkg/api/legacyscheme"
	generatedopenapi "k8s.io/kubernetes/pkg/generated/openapi"
)

// definitions are what OpenAPI documents, and the schemas of server-side apply, are made of. Making them takes
// tens of milliseconds and megabytes, so both servers share them, and those of a document are made when somebody
// asks for one: kubectl does, operators hardly ever.
type definitions struct {
	v2   *openapicommon.Config
	v3   *openapicommon.OpenAPIV3Config
	once sync.Once
}

func newDefinitions(version string) *definitions {
	namer := openapinamer.NewDefinitionNamer(legacyscheme.Scheme, crdserver.Scheme, aggregatorscheme.Scheme)
	d := &definitions{
		v2: genericapiserver.DefaultOpenAPIConfig(generatedopenapi.GetOpenAPIDefinitions, namer),
		v3: genericapiserver.DefaultOpenAPIV3Config(generatedopenapi.GetOpenAPIDefinitions, namer),
	}
	// The documents' version has no patch level.
	if v, err := utilversion.ParseGeneric(version); err == nil {
		version = fmt.Sprintf("%d.%d", v.Major(), v.Minor())
	}
	d.v2.Info.Title, d.v2.Info.Version = "Kubernetes", version
	d.v3.Info.Title, d.v3.Info.Version = "Kubernetes", version
	// What k8s.io/kubernetes/pkg/kubeapiserver/authenticator has the documents say.
	const kind, name, in, text = "apiKey", "authorization", "header", "Bearer Token authentication"
	d.v2.SecurityDefinitions = &spec.SecurityDefinitions{"BearerToken": {
		SecuritySchemeProps: spec.SecuritySchemeProps{Type: kind, Name: name, In: in, Description: text},
	}}
	d.v3.SecuritySchemes = spec3.SecuritySchemes{"BearerToken": {
		SecuritySchemeProps: spec3.SecuritySchemeProps{Type: kind, Name: name, In: in, Description: text},
	}}
	return d
}

// installed is called when all kinds are: from now on only documents need the definitions, and can make them.
func (d *definitions) installed() { d.v3.Definitions = nil }

// documented makes a server's own documents before it is asked for one. Its configuration must have
// SkipOpenAPIInstallation set.
func (d *definitions) documented(s *genericapiserver.GenericAPIServer, h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasPrefix(r.URL.Path, "/openapi/") {
			d.ensure(s)
		}
		h.ServeHTTP(w, r)
	})
}

// ensure makes them, once.
func (d *definitions) ensure(s *genericapiserver.GenericAPIServer) {
	d.once.Do(func() {
		container, mux := s.Handler.GoRestfulContainer, s.Handler.NonGoRestfulMux
		s.OpenAPIVersionedService, s.StaticOpenAPISpec = routes.OpenAPI{Config: d.v2}.InstallV2(container, mux)
		s.OpenAPIV3VersionedService = routes.OpenAPI{V3Config: d.v3}.InstallV3(container, mux)
	})
}
