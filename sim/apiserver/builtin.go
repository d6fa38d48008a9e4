package apiserver

import (
	"fmt"
	"net/http"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/registry/generic"
	"k8s.io/apiserver/pkg/registry/rest"
	genericapiserver "k8s.io/apiserver/pkg/server"
	genericoptions "k8s.io/apiserver/pkg/server/options"
	serverstorage "k8s.io/apiserver/pkg/server/storage"
	"k8s.io/apiserver/pkg/storage/storagebackend"
	"k8s.io/apiserver/pkg/util/compatibility"
	"k8s.io/client-go/kubernetes"
	policyclient "k8s.io/client-go/kubernetes/typed/policy/v1"
	restclient "k8s.io/client-go/rest"
	api "k8s.io/kubernetes/pkg/apis/core"
	"k8s.io/kubernetes/pkg/kubeapiserver"
	kubeletclient "k8s.io/kubernetes/pkg/kubelet/client"
	admissionregistrationrest "k8s.io/kubernetes/pkg/registry/admissionregistration/rest"
	appsrest "k8s.io/kubernetes/pkg/registry/apps/rest"
	authenticationrest "k8s.io/kubernetes/pkg/registry/authentication/rest"
	authorizationrest "k8s.io/kubernetes/pkg/registry/authorization/rest"
	autoscalingrest "k8s.io/kubernetes/pkg/registry/autoscaling/rest"
	batchrest "k8s.io/kubernetes/pkg/registry/batch/rest"
	certificatesrest "k8s.io/kubernetes/pkg/registry/certificates/rest"
	coordinationrest "k8s.io/kubernetes/pkg/registry/coordination/rest"
	endpointsstore "k8s.io/kubernetes/pkg/registry/core/endpoint/storage"
	limitrangestore "k8s.io/kubernetes/pkg/registry/core/limitrange/storage"
	nodestore "k8s.io/kubernetes/pkg/registry/core/node/storage"
	pvstore "k8s.io/kubernetes/pkg/registry/core/persistentvolume/storage"
	pvcstore "k8s.io/kubernetes/pkg/registry/core/persistentvolumeclaim/storage"
	podstore "k8s.io/kubernetes/pkg/registry/core/pod/storage"
	podtemplatestore "k8s.io/kubernetes/pkg/registry/core/podtemplate/storage"
	controllerstore "k8s.io/kubernetes/pkg/registry/core/replicationcontroller/storage"
	corerest "k8s.io/kubernetes/pkg/registry/core/rest"
	servicestore "k8s.io/kubernetes/pkg/registry/core/service/storage"
	serviceaccountstore "k8s.io/kubernetes/pkg/registry/core/serviceaccount/storage"
	discoveryrest "k8s.io/kubernetes/pkg/registry/discovery/rest"
	eventsrest "k8s.io/kubernetes/pkg/registry/events/rest"
	flowcontrolrest "k8s.io/kubernetes/pkg/registry/flowcontrol/rest"
	networkingrest "k8s.io/kubernetes/pkg/registry/networking/rest"
	noderest "k8s.io/kubernetes/pkg/registry/node/rest"
	policyrest "k8s.io/kubernetes/pkg/registry/policy/rest"
	rbacrest "k8s.io/kubernetes/pkg/registry/rbac/rest"
	resourcerest "k8s.io/kubernetes/pkg/registry/resource/rest"
	schedulingrest "k8s.io/kubernetes/pkg/registry/scheduling/rest"
	storagerest "k8s.io/kubernetes/pkg/registry/storage/rest"
	svmrest "k8s.io/kubernetes/pkg/registry/storagemigration/rest"
	"k8s.io/kubernetes/pkg/serviceaccount"

	"github.com/opreplay/opreplay/sim/store"
)

// eventTTL is a real cluster's (--event-ttl).
const eventTTL = time.Hour

// builtin is the API of Kubernetes itself: the registries of kube-apiserver over the world's store.
//
// k8s.io/kubernetes/pkg/controlplane assembles the same, but opens etcd and starts some thirty
// controllers on the wall clock while doing so.
type builtin struct {
	enabled *serverstorage.ResourceConfig
	options generic.RESTOptionsGetter
	loop    *restclient.Config
	// behalf is loop where the registries write on behalf of a client and do not pass its context on.
	behalf  *restclient.Config
	ips     *addresses
	ports   *portAllocator
	tokens  *tokens
	auth    authorize
	now     func() time.Time
	live    bool   // its clock is the wall clock
	version string // that the world pretends to be
}

func (s *Server) newBuiltin() (*builtin, error) {
	b := &builtin{
		enabled: defaultVersions(), loop: s.loop, behalf: s.onBehalf(), ips: s.ips, ports: s.ports,
		tokens: s.tokens, auth: s.auth, now: s.opts.Clock, live: s.opts.Live, version: s.opts.Version,
	}
	etcd := genericoptions.NewEtcdOptions(storagebackend.NewDefaultConfig("/registry", nil))
	etcd.DefaultStorageMediaType = runtime.ContentTypeProtobuf
	c := kubeapiserver.NewStorageFactoryConfigEffectiveVersion(compatibility.DefaultBuildEffectiveVersion())
	c.APIResourceConfig = b.enabled
	factory, err := c.Complete(etcd).New()
	if err != nil {
		return nil, fmt.Errorf("storage factory: %w", err)
	}
	b.options = orderly{s.world.RESTOptions(store.RESTConfig{
		Config: func(gr schema.GroupResource, example runtime.Object) (*storagebackend.ConfigForResource, error) {
			return factory.NewConfig(gr, example)
		},
		ResourcePrefix:    factory.ResourcePrefix,
		GarbageCollection: true,
	})}
	return b, nil
}

// install adds all groups to s.
func (b *builtin) install(s *genericapiserver.GenericAPIServer) error {
	core, err := b.core()
	if err != nil {
		return fmt.Errorf("core API: %w", err)
	}
	b.age(core)
	if err := s.InstallLegacyAPIGroup(genericapiserver.DefaultLegacyAPIPrefix, &core); err != nil {
		return fmt.Errorf("core API: %w", err)
	}
	client, err := kubernetes.NewForConfig(b.loop)
	if err != nil {
		return err
	}
	var groups []*genericapiserver.APIGroupInfo
	for _, p := range b.providers(client) {
		g, err := p.NewRESTStorage(b.enabled, b.options)
		if err != nil {
			return fmt.Errorf("API group %s: %w", p.GroupName(), err)
		}
		b.age(g)
		if unstored(p.GroupName()) {
			g.NegotiatedSerializer = timely{g.NegotiatedSerializer, b.now}
		}
		if len(g.VersionedResourcesStorageMap) > 0 {
			groups = append(groups, &g)
		}
	}
	if groups, err = addRemoved(b.version, groups); err != nil {
		return err
	}
	b.tokens.publish(s)
	return s.InstallAPIGroups(groups...)
}

// age has the ages in the tables of a group counted by the world's clock.
func (b *builtin) age(g genericapiserver.APIGroupInfo) {
	if b.live {
		return
	}
	for _, version := range g.VersionedResourcesStorageMap {
		for _, storage := range version {
			ageTables(storage, b.now)
		}
	}
}

// providers lists the groups in the order of discovery, which is kube-apiserver's
// (k8s.io/kubernetes/pkg/controlplane.StorageProviders).
func (b *builtin) providers(client kubernetes.Interface) []provider {
	return []provider{
		authenticationrest.RESTStorageProvider{Authenticator: b.tokens.reviewer(), APIAudiences: b.tokens.audiences},
		authorizationrest.RESTStorageProvider{Authorizer: b.auth, RuleResolver: b.auth.rules},
		autoscalingrest.RESTStorageProvider{},
		batchrest.RESTStorageProvider{},
		certificatesrest.RESTStorageProvider{Authorizer: b.auth},
		coordinationrest.RESTStorageProvider{},
		discoveryrest.StorageProvider{},
		networkingrest.RESTStorageProvider{},
		noderest.RESTStorageProvider{},
		policyrest.RESTStorageProvider{},
		rbacrest.RESTStorageProvider{Authorizer: b.auth},
		schedulingrest.RESTStorageProvider{},
		storagerest.RESTStorageProvider{},
		svmrest.RESTStorageProvider{},
		flowcontrolrest.RESTStorageProvider{},
		appsrest.StorageProvider{},
		admissionregistrationrest.RESTStorageProvider{Authorizer: b.auth, DiscoveryClient: client.Discovery()},
		eventsrest.RESTStorageProvider{TTL: eventTTL},
		resourcerest.RESTStorageProvider{NamespaceClient: client.CoreV1().Namespaces(), Authorizer: b.auth},
	}
}

// core assembles the core group, as k8s.io/kubernetes/pkg/registry/core/rest does, but with our
// allocators and without componentstatuses.
func (b *builtin) core() (genericapiserver.APIGroupInfo, error) {
	common := corerest.GenericConfig{EventTTL: eventTTL, LoopbackClientConfig: b.loop}
	info, err := common.NewRESTStorage(b.enabled, b.options)
	if err != nil {
		return info, err
	}
	v1 := info.VersionedResourcesStorageMap["v1"]
	for _, add := range []func(map[string]rest.Storage) error{b.workloads, b.volumes, b.others, b.accounts} {
		if err := add(v1); err != nil {
			return info, err
		}
	}
	return info, nil
}

// workloads adds nodes, pods and Services, which need each other.
func (b *builtin) workloads(v1 map[string]rest.Storage) error {
	transport := http.DefaultTransport // to kubelets, of which there are none
	nodes, err := nodestore.NewStorage(b.options,
		kubeletclient.KubeletClientConfig{Port: 10250, PreferredAddressTypes: []string{string(api.NodeInternalIP)}}, transport)
	if err != nil {
		return err
	}
	budgets, err := policyclient.NewForConfig(b.behalf)
	if err != nil {
		return err
	}
	pods, err := podstore.NewStorage(b.options, nodes.KubeletConnectionInfo, transport, budgets, b.auth)
	if err != nil {
		return err
	}
	services, serviceStatus, serviceProxy, err := servicestore.NewREST(b.options, b.ips.families[0], b.ips.allocators(), b.ports, nil, pods.Pod, transport)
	if err != nil {
		return err
	}
	b.ips.record(services)
	for name, s := range map[string]rest.Storage{
		"nodes": nodes.Node, "nodes/status": nodes.Status, "nodes/proxy": nodes.Proxy,
		"pods": pods.Pod, "pods/status": pods.Status, "pods/binding": pods.Binding, "pods/eviction": pods.Eviction,
		"pods/ephemeralcontainers": pods.EphemeralContainers, "pods/resize": pods.Resize, "pods/log": pods.Log,
		"pods/exec": pods.Exec, "pods/attach": pods.Attach, "pods/portforward": pods.PortForward, "pods/proxy": pods.Proxy,
		"bindings": pods.LegacyBinding,
		"services": services, "services/status": serviceStatus, "services/proxy": serviceProxy,
	} {
		v1[name] = s
	}
	return nil
}

func (b *builtin) volumes(v1 map[string]rest.Storage) error {
	pv, pvStatus, err := pvstore.NewREST(b.options)
	if err != nil {
		return err
	}
	pvc, pvcStatus, err := pvcstore.NewREST(b.options)
	if err != nil {
		return err
	}
	v1["persistentvolumes"], v1["persistentvolumes/status"] = pv, pvStatus
	v1["persistentvolumeclaims"], v1["persistentvolumeclaims/status"] = pvc, pvcStatus
	return nil
}

func (b *builtin) others(v1 map[string]rest.Storage) error {
	endpoints, err := endpointsstore.NewREST(b.options)
	if err != nil {
		return err
	}
	templates, err := podtemplatestore.NewREST(b.options)
	if err != nil {
		return err
	}
	limits, err := limitrangestore.NewREST(b.options)
	if err != nil {
		return err
	}
	rc, err := controllerstore.NewStorage(b.options)
	if err != nil {
		return err
	}
	v1["endpoints"], v1["podtemplates"], v1["limitranges"] = endpoints, templates, limits
	v1["replicationcontrollers"], v1["replicationcontrollers/status"], v1["replicationcontrollers/scale"] = rc.Controller, rc.Status, rc.Scale
	return nil
}

// accounts adds service accounts and their tokens, which may be bound to pods, Secrets and nodes. They are
// what kube-apiserver's flags make them by default.
func (b *builtin) accounts(v1 map[string]rest.Storage) error {
	client, err := kubernetes.NewForConfig(b.loop)
	if err != nil {
		return err
	}
	hooks := client.AdmissionregistrationV1()
	accounts, err := serviceaccountstore.NewREST(b.options, b.tokens, b.tokens.audiences, b.auth, 0,
		v1["pods"].(rest.Getter), v1["secrets"].(rest.Getter), v1["nodes"].(rest.Getter),
		hooks.ValidatingWebhookConfigurations(), hooks.MutatingWebhookConfigurations(),
		true, serviceaccount.ExpirationExtensionSeconds*time.Second)
	if err != nil {
		return err
	}
	v1["serviceaccounts"], v1["serviceaccounts/token"] = accounts, tokenREST{accounts.Token, b.now}
	return nil
}
