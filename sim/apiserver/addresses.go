package apiserver

import (
	"cmp"
	"context"
	"net"
	"net/netip"
	"slices"

	networkingv1 "k8s.io/api/networking/v1"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	genericregistry "k8s.io/apiserver/pkg/registry/generic/registry"
	"k8s.io/apiserver/pkg/util/dryrun"
	metaapply "k8s.io/client-go/applyconfigurations/meta/v1"
	networkingapply "k8s.io/client-go/applyconfigurations/networking/v1"
	networkingclient "k8s.io/client-go/kubernetes/typed/networking/v1"
	api "k8s.io/kubernetes/pkg/apis/core"
	"k8s.io/kubernetes/pkg/apis/networking"
	"k8s.io/kubernetes/pkg/controlplane/controller/defaultservicecidr"
	"k8s.io/kubernetes/pkg/registry/core/service/ipallocator"
	servicestore "k8s.io/kubernetes/pkg/registry/core/service/storage"

	"github.com/opreplay/opreplay/sim/store"
)

// The addresses of Services, as k8s.io/kubernetes/pkg/registry/core/service/ipallocator gives them: from the ranges of
// the ServiceCIDRs that are ready, and each with an IPAddress of its name. There, informers tell what is used; here the
// store is asked.

var (
	addressGR = networking.Resource("ipaddresses")
	rangeGR   = networking.Resource("servicecidrs")
)

// ipAllocator implements ipallocator.Interface for one family.
type ipAllocator struct {
	reservations[netip.Addr]
	family api.IPFamily
	world  *store.Store
	client func() networkingclient.IPAddressInterface
	dryRun bool
}

func (s *Server) newIPAllocator(family api.IPFamily, client func() networkingclient.IPAddressInterface) *ipAllocator {
	return &ipAllocator{family: family, world: s.world, client: client, reservations: newReservations(s.services, clusterIPs)}
}

// clusterIPs are those of a Service, also of one that was recorded when there were no IPAddresses.
func clusterIPs(svc *api.Service) (out []netip.Addr) {
	for _, s := range svc.Spec.ClusterIPs {
		if ip, err := netip.ParseAddr(s); err == nil { // "None" is no address
			out = append(out, ip)
		}
	}
	return out
}

func familyOf(ip netip.Addr) api.IPFamily {
	if ip.Is4() {
		return api.IPv4Protocol
	}
	return api.IPv6Protocol
}

// ranges are those that addresses are given from: the API server's own first, others by name. A real API server takes
// any.
func (a *ipAllocator) ranges() (out []netip.Prefix) {
	objs, err := a.world.Objects(rangeGR)
	if err != nil {
		return nil // one that cannot be decoded cannot be used either
	}
	all := make([]*networking.ServiceCIDR, 0, len(objs))
	for _, o := range objs {
		c := o.(*networking.ServiceCIDR)
		if c.DeletionTimestamp.IsZero() && apimeta.IsStatusConditionTrue(c.Status.Conditions, networkingv1.ServiceCIDRConditionReady) {
			all = append(all, c)
		}
	}
	own := func(c *networking.ServiceCIDR) int {
		if c.Name == defaultservicecidr.DefaultServiceCIDRName {
			return 0
		}
		return 1
	}
	slices.SortStableFunc(all, func(p, q *networking.ServiceCIDR) int { return cmp.Compare(own(p), own(q)) })
	for _, c := range all {
		for _, text := range c.Spec.CIDRs {
			if p, err := netip.ParsePrefix(text); err == nil && familyOf(p.Addr()) == a.family {
				out = append(out, p.Masked())
			}
		}
	}
	return out
}

// bounds gives the first and last usable address of a range and the first of those that are given out unasked. As
// in a real cluster the lower part of the range is left to Services that name their address
// (k8s.io/kubernetes/pkg/registry/core/service/ipallocator, NewIPAllocator and calculateRangeOffset).
func bounds(p netip.Prefix) (first, dynamic, last netip.Addr) {
	bytes := p.Addr().AsSlice()
	for i := range bytes {
		host := max(0, min(8, 8*(i+1)-p.Bits()))
		bytes[i] |= byte(1<<host - 1)
	}
	last, _ = netip.AddrFromSlice(bytes)
	first = p.Addr().Next()
	if last.Is4() {
		last = last.Prev() // the broadcast address
	}
	dynamic = first
	if hosts := min(last.BitLen()-p.Bits(), 16); hosts > 4 {
		for range min(max(16, 1<<hosts/16), 256) {
			dynamic = dynamic.Next()
		}
	}
	return first, dynamic, last
}

// taken are all addresses in use. mu is held.
func (a *ipAllocator) taken() map[netip.Addr]bool {
	used := a.used()
	objs, err := a.world.Objects(addressGR)
	if err != nil {
		return used
	}
	for _, o := range objs {
		if ip, err := netip.ParseAddr(o.(*networking.IPAddress).Name); err == nil {
			used[ip] = true
		}
	}
	return used
}

// Allocate implements ipallocator.Interface.
func (a *ipAllocator) Allocate(ip net.IP) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	addr, _ := netip.AddrFromSlice(ip)
	addr = addr.Unmap()
	within := func(p netip.Prefix) bool { return p.Contains(addr) }
	all := a.ranges()
	i := slices.IndexFunc(all, within)
	if a.dryRun && len(all) > 0 {
		i = 0 // a dry run asks one range, and does not say that it has no such address in other words
	}
	if i < 0 {
		return ipallocator.ErrMismatchedNetwork
	}
	if first, _, last := bounds(all[i]); addr.Less(first) || last.Less(addr) {
		return &ipallocator.ErrNotInRange{IP: ip, ValidRange: all[i].String()}
	}
	if a.dryRun {
		return nil // it does not look whether it is free either
	}
	if a.taken()[addr] {
		return ipallocator.ErrAllocated
	}
	a.held[addr] = true
	return nil
}

// AllocateNext implements ipallocator.Interface.
func (a *ipAllocator) AllocateNext() (net.IP, error) {
	if a.dryRun {
		return a.CIDR().IP, nil // nor for one that is
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	used := a.taken()
	for _, p := range a.ranges() {
		first, dynamic, last := bounds(p)
		for _, span := range [][2]netip.Addr{{dynamic, last}, {first, dynamic.Prev()}} {
			for ip := span[0]; ip.Compare(span[1]) <= 0; ip = ip.Next() {
				if !used[ip] {
					a.held[ip] = true
					return ip.AsSlice(), nil
				}
			}
		}
	}
	return nil, ipallocator.ErrFull
}

// holds says whether the address was given since the store was asked last.
func (a *ipAllocator) holds(ip netip.Addr) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.held[ip]
}

// Release implements ipallocator.Interface.
func (a *ipAllocator) Release(ip net.IP) error {
	addr, ok := netip.AddrFromSlice(ip)
	if !ok || a.dryRun {
		return nil
	}
	a.release(addr.Unmap())
	// As there: that it was gone already is no error.
	_ = a.client().Delete(context.Background(), addr.Unmap().String(), metav1.DeleteOptions{})
	return nil
}

// Has implements ipallocator.Interface.
func (a *ipAllocator) Has(ip net.IP) bool {
	addr, _ := netip.AddrFromSlice(ip)
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.taken()[addr.Unmap()]
}

// ForEach implements ipallocator.Interface.
func (a *ipAllocator) ForEach(fn func(net.IP)) {
	a.mu.Lock()
	used := a.taken()
	a.mu.Unlock()
	for ip := range used {
		fn(ip.AsSlice())
	}
}

// CIDR implements ipallocator.Interface.
func (a *ipAllocator) CIDR() net.IPNet {
	for _, p := range a.ranges() {
		return net.IPNet{IP: p.Addr().AsSlice(), Mask: net.CIDRMask(p.Bits(), p.Addr().BitLen())}
	}
	return net.IPNet{}
}

// IPFamily implements ipallocator.Interface.
func (a *ipAllocator) IPFamily() api.IPFamily { return a.family }

// Destroy implements ipallocator.Interface.
func (a *ipAllocator) Destroy() {}

// EnableMetrics implements ipallocator.Interface.
func (a *ipAllocator) EnableMetrics() {}

// DryRun implements ipallocator.Interface: it reserves nothing, and knows no more than the range
// (k8s.io/kubernetes/pkg/registry/core/service/ipallocator, allocateService).
func (a *ipAllocator) DryRun() ipallocator.Interface {
	dry := &ipAllocator{family: a.family, world: a.world, dryRun: true, reservations: newReservations(a.services, a.uses)}
	return dry
}

// addresses are the allocators of all families that the world has.
type addresses struct {
	families []api.IPFamily // the primary one first
	by       map[api.IPFamily]*ipAllocator
	clients  networkingclient.NetworkingV1Interface
}

func (s *Server) newAddresses(cidrs []netip.Prefix) (*addresses, error) {
	clients, err := networkingclient.NewForConfig(s.loop)
	a := &addresses{by: map[api.IPFamily]*ipAllocator{}, clients: clients}
	for _, p := range cidrs {
		f := familyOf(p.Addr())
		a.families = append(a.families, f)
		a.by[f] = s.newIPAllocator(f, func() networkingclient.IPAddressInterface { return clients.IPAddresses() })
	}
	return a, err
}

// forget drops all reservations: the world was replaced.
func (a *addresses) forget() {
	for _, alloc := range a.by {
		alloc.reservations.forget()
	}
}

// allocators is what the registry of Services takes.
func (a *addresses) allocators() map[api.IPFamily]ipallocator.Interface {
	out := map[api.IPFamily]ipallocator.Interface{}
	for f, alloc := range a.by {
		out[f] = alloc
	}
	return out
}

// record has the registry of Services store an IPAddress for each address before it stores the Service.
func (a *addresses) record(services *servicestore.REST) {
	create, update := services.BeginCreate, services.BeginUpdate
	services.BeginCreate = func(ctx context.Context, obj runtime.Object, o *metav1.CreateOptions) (genericregistry.FinishFunc, error) {
		finish, err := create(ctx, obj, o)
		if err != nil || dryrun.IsDryRun(o.DryRun) {
			return finish, err
		}
		return a.claim(ctx, finish, nil, obj)
	}
	services.BeginUpdate = func(ctx context.Context, obj, old runtime.Object, o *metav1.UpdateOptions) (genericregistry.FinishFunc, error) {
		finish, err := update(ctx, obj, old, o)
		if err != nil || dryrun.IsDryRun(o.DryRun) {
			return finish, err
		}
		return a.claim(ctx, finish, old, obj)
	}
}

// claim stores IPAddresses for the addresses that a Service did not have before. If it cannot, FINISH takes everything
// back.
func (a *addresses) claim(ctx context.Context, finish genericregistry.FinishFunc, old, obj runtime.Object) (genericregistry.FinishFunc, error) {
	svc := obj.(*api.Service)
	var had []netip.Addr
	if before, ok := old.(*api.Service); ok {
		had = clusterIPs(before)
	}
	for _, ip := range clusterIPs(svc) {
		if alloc := a.by[familyOf(ip)]; slices.Contains(had, ip) || alloc == nil || !alloc.holds(ip) {
			continue // one that no allocator has given is refused by what comes next
		}
		// The request's end does not end it, as in a real API server; that it may not write does.
		if _, err := a.clients.IPAddresses().Create(context.WithoutCancel(ctx), ipAddress(ip, svc), metav1.CreateOptions{}); err != nil {
			finish(ctx, false)
			return nil, err
		}
	}
	return finish, nil
}

// ipAddress is what stands for an address of a Service.
func ipAddress(ip netip.Addr, svc *api.Service) *networkingv1.IPAddress {
	return &networkingv1.IPAddress{
		ObjectMeta: metav1.ObjectMeta{Name: ip.String(), Labels: map[string]string{
			networkingv1.LabelIPAddressFamily: string(familyOf(ip)), networkingv1.LabelManagedBy: ipallocator.ControllerName,
		}},
		Spec: networkingv1.IPAddressSpec{ParentRef: &networkingv1.ParentReference{Resource: "services", Namespace: svc.Namespace, Name: svc.Name}},
	}
}

// createRange makes the API server's own ServiceCIDR
// (k8s.io/kubernetes/pkg/controlplane/controller/defaultservicecidr).
func (s *Server) createRange(ctx context.Context, cidrs []netip.Prefix) error {
	const manager = "kubernetes-service-cidr-controller"
	client, err := networkingclient.NewForConfig(s.loop)
	if err != nil {
		return err
	}
	c := &networkingv1.ServiceCIDR{ObjectMeta: metav1.ObjectMeta{Name: defaultservicecidr.DefaultServiceCIDRName}}
	for _, p := range cidrs {
		c.Spec.CIDRs = append(c.Spec.CIDRs, p.String())
	}
	if _, err := client.ServiceCIDRs().Create(ctx, c, metav1.CreateOptions{}); err != nil {
		return err
	}
	ready := networkingapply.ServiceCIDR(c.Name).WithStatus(networkingapply.ServiceCIDRStatus().WithConditions(metaapply.Condition().
		WithType(networkingv1.ServiceCIDRConditionReady).WithStatus(metav1.ConditionTrue).
		WithMessage("Kubernetes default Service CIDR is ready").WithLastTransitionTime(metav1.NewTime(s.opts.Clock()))))
	_, err = client.ServiceCIDRs().ApplyStatus(ctx, ready, metav1.ApplyOptions{FieldManager: manager, Force: true})
	return err
}

// adoptRange has the API server's own Service where the cluster of OBJS, which are about to be loaded, has it; the
// range is that cluster's too, if it is known by no ServiceCIDR. It is done before they are loaded, so that the world's
// versions go on from theirs.
func (s *Server) adoptRange(ctx context.Context, objs []recordedObject) error {
	var ip netip.Addr
	var known bool
	for _, o := range objs {
		switch {
		case o.GroupResource() == api.Resource("services") && o.u.GetNamespace() == metav1.NamespaceDefault && o.u.GetName() == kubernetesServiceName:
			text, _, _ := unstructured.NestedString(o.u.Object, "spec", "clusterIP")
			ip, _ = netip.ParseAddr(text) // "None" is no address either
		case o.GroupResource() == rangeGR && o.u.GetName() == defaultservicecidr.DefaultServiceCIDRName:
			known = true
		}
	}
	was := s.ServiceHost()
	if !ip.IsValid() || ip == was {
		return nil
	}
	client, err := networkingclient.NewForConfig(s.loop)
	if err != nil {
		return err
	}
	if err := client.IPAddresses().Delete(ctx, was.String(), metav1.DeleteOptions{}); err != nil {
		return err
	}
	svc := &api.Service{ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: kubernetesServiceName}}
	if _, err := client.IPAddresses().Create(ctx, ipAddress(ip, svc), metav1.CreateOptions{}); err != nil {
		return err
	}
	if known || s.opts.cidrGiven || familyOf(ip) != s.ips.families[0] || s.cidrs[0].Contains(ip) {
		return nil
	}
	if err := client.ServiceCIDRs().Delete(ctx, defaultservicecidr.DefaultServiceCIDRName, metav1.DeleteOptions{}); err != nil {
		return err
	}
	bits := 16 // the range's size is not recorded; this holds the first addresses of any
	if ip.Is6() {
		bits = 112
	}
	s.cidrs[0] = netip.PrefixFrom(ip, bits).Masked()
	return s.createRange(ctx, s.cidrs)
}
