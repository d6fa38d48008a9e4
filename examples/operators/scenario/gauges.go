package scenario

import (
	"bufio"
	"context"
	"net"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

var gauges = schema.GroupVersionResource{Group: "gauge.example.com", Version: "v1", Resource: "gauges"}

// playGauges puts a gauge up, and moves it to another address.
func playGauges(ctx context.Context, u *user) error {
	tank := thing{gauges, "tank"}
	old, err := gauge()
	if err != nil {
		return err
	}
	if err := u.create(ctx, tank, "Gauge", map[string]any{"address": old.Addr().String()}); err != nil {
		return err
	}
	if err := u.await(ctx, tank, "read", has("status", "readings")); err != nil {
		return err
	}
	moved, err := gauge()
	if err != nil {
		return err
	}
	defer func() { _ = moved.Close() }()
	if _, err := u.edit(ctx, tank, map[string]any{"address": moved.Addr().String()}); err != nil {
		return err
	}
	if err := u.stay(ctx, time.Second); err != nil { // a reader may be about to dial the old address
		return err
	}
	_ = old.Close()
	return u.stay(ctx, 15*time.Second)
}

// gauge tells everybody who connects the same.
func gauge() (net.Listener, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	go func() {
		for {
			connection, err := listener.Accept()
			if err != nil {
				return
			}
			out := bufio.NewWriter(connection)
			_, _ = out.WriteString("42\n")
			_ = out.Flush() // who has gone away needs no reading
			_ = connection.Close()
		}
	}()
	return listener, nil
}
