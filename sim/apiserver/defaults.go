package apiserver

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/netip"

	corev1 "k8s.io/api/core/v1"
	schedulingapi "k8s.io/api/scheduling/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	schedulingv1 "k8s.io/kubernetes/pkg/apis/scheduling/v1"
)

// createDefaults makes what every cluster has. Loaded objects of the same names take their places.
func (s *Server) createDefaults(ctx context.Context) error {
	for _, name := range []string{
		metav1.NamespaceSystem, metav1.NamespacePublic, corev1.NamespaceNodeLease, metav1.NamespaceDefault,
	} {
		ns := &corev1.Namespace{
			TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Namespace"}, ObjectMeta: metav1.ObjectMeta{Name: name},
		}
		if err := s.create(ctx, "/api/v1/namespaces", ns); err != nil {
			return err
		}
	}
	for _, c := range schedulingv1.SystemPriorityClasses() {
		c.SetGroupVersionKind(schedulingapi.SchemeGroupVersion.WithKind("PriorityClass"))
		if err := s.create(ctx, "/apis/scheduling.k8s.io/v1/priorityclasses", c); err != nil {
			return err
		}
	}
	if err := s.createRange(ctx, s.cidrs); err != nil {
		return fmt.Errorf("the range of Services' addresses: %w", err)
	}
	first, _, _ := bounds(s.cidrs[0])
	return s.create(ctx, "/api/v1/namespaces/default/services", kubernetesService(first))
}

const kubernetesServiceName = "kubernetes"

// kubernetesService is the Service of the API server itself, as
// k8s.io/kubernetes/pkg/controlplane/controller/kubernetesservice makes it.
func kubernetesService(ip netip.Addr) *corev1.Service {
	affinity := corev1.ServiceAffinityNone
	single := corev1.IPFamilyPolicySingleStack
	return &corev1.Service{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Service"},
		ObjectMeta: metav1.ObjectMeta{
			Name: kubernetesServiceName, Namespace: metav1.NamespaceDefault,
			Labels: map[string]string{"provider": "kubernetes", "component": "apiserver"},
		},
		Spec: corev1.ServiceSpec{
			Ports:     []corev1.ServicePort{{Name: "https", Port: 443, Protocol: corev1.ProtocolTCP, TargetPort: intstr.FromInt32(6443)}},
			ClusterIP: ip.String(), IPFamilyPolicy: &single, SessionAffinity: affinity, Type: corev1.ServiceTypeClusterIP,
		},
	}
}

// create posts one of the server's own objects.
func (s *Server) create(ctx context.Context, path string, obj any) error {
	body, err := json.Marshal(obj)
	if err != nil {
		return err
	}
	resp, err := s.call(ctx, http.MethodPost, path, "application/json", bytes.NewReader(body))
	if err != nil {
		return err
	}
	if resp.code != http.StatusCreated {
		return fmt.Errorf("POST %s: %d: %s", path, resp.code, resp.body)
	}
	return nil
}
