package apiserver

import (
	"net/netip"

	"k8s.io/apimachinery/pkg/util/intstr"
	api "k8s.io/kubernetes/pkg/apis/core"
)

// ServiceHost is the address of the API server's own Service, default/kubernetes, in this world; the
// zero Addr when it has none.
func (s *Server) ServiceHost() netip.Addr {
	svc := s.service("default", kubernetesServiceName)
	if svc == nil {
		return netip.Addr{}
	}
	ip, _ := netip.ParseAddr(svc.Spec.ClusterIP) // "None" is no address either
	return ip
}

// TargetPort is the port of the pods behind a port of a Service: by number, as webhook configurations
// name it. Where a Service names the port of its pods by a word, or there is no such Service, it is the
// port itself and known is false.
func (s *Server) TargetPort(namespace, name string, port int) (target int, known bool) {
	svc := s.service(namespace, name)
	if svc == nil {
		return port, false
	}
	for _, p := range svc.Spec.Ports {
		if int(p.Port) != port {
			continue
		}
		if p.TargetPort.Type == intstr.Int && p.TargetPort.IntVal != 0 {
			return int(p.TargetPort.IntVal), true
		}
		return port, p.TargetPort.Type == intstr.Int
	}
	return port, false
}

func (s *Server) service(namespace, name string) *api.Service {
	for _, o := range s.services() {
		if svc, ok := o.(*api.Service); ok && svc.Namespace == namespace && svc.Name == name {
			return svc
		}
	}
	return nil
}
