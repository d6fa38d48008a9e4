// Package standin is the programs kube-apiserver and etcd as envtest starts them (sigs.k8s.io/controller-runtime,
// pkg/envtest): with the same flags, certificates, ports and health checks, and an API server of
// sim/apiserver behind them.
//
//	err := standin.Write("bin/envtest", "/usr/local/bin/opsim")   // files that are opsim by other names
//	…
//	KUBEBUILDER_ASSETS=$PWD/bin/envtest go test ./...
//
// The program looks at the name by which it was called: [For] has the command of that name.
//
// The state is the API server's and ends with it. etcd answers health checks and nothing else.
package standin
