// Package cluster joins an API server and processes into a world that needs no recording, and holds what a
// process of any world finds of its cluster: addresses, files, variables, certificates.
//
//	base, err := cluster.NewBase(ctx, 1)             // the API server: a second
//	err = setUp(base.Admin())                        // with client-go
//	base.Keep()
//	w, err := base.Begin(cluster.Options{Seed: 7})   // a world: a millisecond
//	op, err := w.Start(cluster.Program{Name: "operator", Path: "./manager", InCluster: true})
//	w.Script(5*time.Second, "create demo/a", func() error { … w.User("kubectl") … })
//	err = w.Run(ctx, time.Hour, nil)                 // an hour: a second or two
//	fmt.Println(w.Hash(), w.Stats().Deterministic)
//	err = w.Close()                                  // and Begin again
//
// # How a process finds the API server
//
// By KUBECONFIG without TLS ([Access.ByKubeconfig]), or as a pod does ([Access.InCluster]): a service
// account's files and KUBERNETES_SERVICE_HOST, with TLS on port 443 of the Service default/kubernetes and a
// certificate that is the same in every world. Nothing else can be reached.
//
// # Webhooks
//
// A process that listens is where the API server's admission webhooks go: a webhook's Service is looked up in
// the world, and its target port says which process. The request that is asked about waits, its handler
// standing still, while the world goes on step by step ([CallWebhook]); the time limit is virtual. Webhooks
// whose port no process has ever listened on are not called: a recorded cluster may hold those of others.
package cluster
