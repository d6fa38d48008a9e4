// Package otelcollector runs the receiver of the OpenTelemetry Collector, for tests: what a program sends by OTLP, or
// has written to a file, is read by the collector's own code and comes back as the collector would hand it on.
//
//	c := otelcollector.Start(t)
//	err := export.SendOTLP(ctx, c.HTTP, spans)
//	got := c.Next() // one batch, in OTLP's JSON form
//
// The collector's modules want newer versions of OpenTelemetry and gRPC than Kubernetes pins, so the program is a
// module of its own, in the folder receiver, and go.mod stays the product's. It is built on its first use in a test:
// some 500 packages, 45 s of CPU from nothing, seconds from Go's build cache. Where its modules are not in Go's module cache
// and can't be downloaded, such a test is skipped.
package otelcollector
