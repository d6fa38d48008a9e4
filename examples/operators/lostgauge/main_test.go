package main

import (
	"context"
	"net"
	"sync"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// store is a cache that has one gauge or none.
type store struct {
	client.Client
	mu    sync.Mutex
	gauge *Gauge
}

func (s *store) Get(_ context.Context, key client.ObjectKey, into client.Object, _ ...client.GetOption) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.gauge == nil {
		return apierrors.NewNotFound(schema.GroupResource{Group: "gauge.example.com", Resource: "gauges"}, key.Name)
	}
	*into.(*Gauge) = *s.gauge
	return nil
}

// A gauge that is deleted and made anew by the same name is read again.
func TestGaugeMadeAnew(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = listener.Close() }()
	stop, end := context.WithCancel(t.Context())
	defer end()
	key := types.NamespacedName{Namespace: "plant", Name: "tank"}
	cache := &store{}
	r := &GaugeReconciler{Client: cache, Fixed: true, Stop: stop, readers: map[types.NamespacedName]bool{key: true}}
	r.follow(key, "") // until it sees that the gauge is gone

	cache.mu.Lock()
	cache.gauge = &Gauge{Spec: GaugeSpec{Address: listener.Addr().String()}}
	cache.mu.Unlock()
	if _, err := r.Reconcile(stop, ctrl.Request{NamespacedName: key}); err != nil {
		t.Fatal(err)
	}
	if err := listener.(*net.TCPListener).SetDeadline(time.Now().Add(limit)); err != nil {
		t.Fatal(err)
	}
	connection, err := listener.Accept()
	if err != nil {
		t.Fatalf("nobody reads the gauge: %v", err)
	}
	_ = connection.Close() // without an answer: the reader has nothing to report
}
