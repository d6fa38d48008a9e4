package store

import "google.golang.org/grpc/codes"

// maxRequest is how much etcd takes in one request (--max-request-bytes) unless it is told otherwise.
const maxRequest = 1.5 * 1024 * 1024

// errTooLarge is etcd's answer to more (go.etcd.io/etcd/api/v3/v3rpc/rpctypes, ErrGRPCRequestTooLarge). The API
// server knows it by its code and text (k8s.io/apiserver/pkg/endpoints/handlers, isTooLargeError).
type errTooLarge struct{}

// Error implements error.
func (errTooLarge) Error() string { return "etcdserver: request is too large" }

// Code is that of gRPC.
func (errTooLarge) Code() codes.Code { return codes.InvalidArgument }
