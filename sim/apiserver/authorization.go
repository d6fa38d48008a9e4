package apiserver

import (
	"fmt"
	_ "unsafe" // for go:linkname

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/authorization/authorizerfactory"
	"k8s.io/apiserver/pkg/authorization/union"
	"k8s.io/client-go/kubernetes"
	rbacrest "k8s.io/kubernetes/pkg/registry/rbac/rest"
	"k8s.io/kubernetes/plugin/pkg/auth/authorizer/rbac"
	"k8s.io/kubernetes/plugin/pkg/auth/authorizer/rbac/bootstrappolicy"

	"github.com/opreplay/opreplay/sim/store"
)

// authorize is who decides what a user may do, and lists it.
type authorize struct {
	authorizer.Authorizer
	rules authorizer.RuleResolver
}

// newAuthorizer allows everything, or what the world's roles allow. A real API server hears of roles a little
// late; this one looks.
func newAuthorizer(o Options, world *store.Store) (authorize, error) {
	if !o.RBAC {
		allow := authorizerfactory.NewAlwaysAllowAuthorizer()
		return authorize{allow, allow}, nil
	}
	f := newStoreInformers(world, nil).Rbac().V1()
	roles := rbac.New(&rbac.RoleGetter{Lister: f.Roles().Lister()}, &rbac.RoleBindingLister{Lister: f.RoleBindings().Lister()},
		&rbac.ClusterRoleGetter{Lister: f.ClusterRoles().Lister()}, &rbac.ClusterRoleBindingLister{Lister: f.ClusterRoleBindings().Lister()})
	both, err := union.New(union.NamedAuthorizer{AuthorizerName: "kubernetes.io/system-privileged-group", Authorizer: authorizerfactory.NewPrivilegedGroups(user.SystemPrivilegedGroup)},
		union.NamedAuthorizer{AuthorizerName: "RBAC", Authorizer: roles})
	return authorize{both, roles}, err
}

//go:linkname ensureRBACPolicy k8s.io/kubernetes/pkg/registry/rbac/rest.ensureRBACPolicy
func ensureRBACPolicy(*rbacrest.PolicyData, kubernetes.Interface) (done bool, err error)

// createRoles makes the roles and bindings that every cluster has. Loaded objects of the same names take their
// places.
func (s *Server) createRoles() error {
	if !s.opts.RBAC {
		return nil
	}
	client, err := kubernetes.NewForConfig(s.loop)
	if err != nil {
		return err
	}
	parts := []*rbacrest.PolicyData{{
		ClusterRoles:        append(bootstrappolicy.ClusterRoles(), bootstrappolicy.ControllerRoles()...),
		ClusterRoleBindings: append(bootstrappolicy.ClusterRoleBindings(), bootstrappolicy.ControllerRoleBindings()...),
	}}
	// One namespace at a time, since a map has no order.
	roles, bindings := bootstrappolicy.NamespaceRoles(), bootstrappolicy.NamespaceRoleBindings()
	for _, ns := range sortedKeys(roles) {
		parts = append(parts, &rbacrest.PolicyData{
			Roles: map[string][]rbacv1.Role{ns: roles[ns]}, RoleBindings: map[string][]rbacv1.RoleBinding{ns: bindings[ns]},
		})
	}
	for _, p := range parts {
		if done, err := ensureRBACPolicy(p, client); err != nil || !done {
			return fmt.Errorf("roles of a new cluster: %v, %w", done, err)
		}
	}
	return nil
}
