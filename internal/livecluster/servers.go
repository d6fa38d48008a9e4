package livecluster

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// The flags of the servers. All paths are relative to the cluster's folder, in which they run: the
// path of a Unix socket must not be longer than about a hundred bytes, and a test's folder easily is.

const (
	etcdSocket     = "unix://etcd.sock"
	etcdPeerSocket = "unix://peer.sock"
	auditLogName   = "audit.log"
	auditPolicy    = "audit-policy.json"
	auditWebhook   = "audit-webhook.kubeconfig"
	managerConfig  = "kube-controller-manager.kubeconfig"
)

func etcdFlags() []string {
	return []string{
		"--name=livecluster",
		"--data-dir=etcd",
		"--listen-client-urls=" + etcdSocket,
		"--advertise-client-urls=" + etcdSocket,
		"--listen-peer-urls=" + etcdPeerSocket,
		"--initial-advertise-peer-urls=" + etcdPeerSocket,
		"--initial-cluster=livecluster=" + etcdPeerSocket,
		"--unsafe-no-fsync", // nothing here must survive a crash of the machine
		"--log-level=warn",
	}
}

func apiServerFlags(dir string, port int, o *Options) ([]string, error) {
	flags := append(servingFlags(port),
		"--advertise-address=127.0.0.1",
		"--etcd-servers="+etcdSocket,
		"--client-ca-file="+caFile,
		"--service-account-key-file="+tokenPublicFile,
		"--service-account-signing-key-file="+tokenPrivateFile,
		"--service-account-issuer=https://kubernetes.default.svc",
		"--service-cluster-ip-range="+serviceRange,
		"--authorization-mode=RBAC",
		"--disable-admission-plugins=ServiceAccount", // else no pod without a controller for its account
		"--endpoint-reconciler-type=none",            // it would refuse a loopback address
		"--allow-privileged=true",
		"--profiling=false",
	)
	if len(o.FeatureGates) > 0 {
		flags = append(flags, "--feature-gates="+strings.Join(o.FeatureGates, ","))
	}
	audit, err := auditFlags(dir, o)
	return append(flags, audit...), err
}

// servingFlags are those of every server with an HTTPS port.
func servingFlags(port int) []string {
	return []string{
		"--bind-address=127.0.0.1",
		fmt.Sprintf("--secure-port=%d", port),
		"--permit-port-sharing=true", // see reservePort
		"--tls-cert-file=" + serverCertFile,
		"--tls-private-key-file=" + serverKeyFile,
	}
}

// auditFlags also writes the files that the flags name.
func auditFlags(dir string, o *Options) ([]string, error) {
	if !o.AuditLog && o.AuditWebhook == "" {
		return nil, nil
	}
	policy, err := json.Marshal(map[string]any{
		"apiVersion": "audit.k8s.io/v1",
		"kind":       "Policy",
		"omitStages": []string{"RequestReceived"},
		"rules":      []any{map[string]any{"level": "RequestResponse"}},
	})
	if err != nil {
		return nil, err
	}
	if err := os.WriteFile(filepath.Join(dir, auditPolicy), policy, 0o600); err != nil {
		return nil, err
	}
	flags := []string{"--audit-policy-file=" + auditPolicy}
	if o.AuditLog {
		flags = append(flags,
			"--audit-log-path="+auditLogName,
			"--audit-log-format=json",
			"--audit-log-mode=blocking",
			"--audit-log-maxsize=0", // one file, however long: a reader must not miss a rotation
		)
	}
	if o.AuditWebhook == "" {
		return flags, nil
	}
	config := kubeconfig(o.AuditWebhook, nil, pair{})
	if err := clientcmd.WriteToFile(*config, filepath.Join(dir, auditWebhook)); err != nil {
		return nil, err
	}
	return append(flags,
		"--audit-webhook-config-file="+auditWebhook,
		"--audit-webhook-mode=batch",
		"--audit-webhook-batch-max-size=1", // at once
		"--audit-webhook-batch-max-wait=100ms",
		"--audit-webhook-batch-buffer-size=100000", // what does not fit is lost
		"--audit-webhook-batch-throttle-enable=false",
	), nil
}

func managerFlags(port int, controllers []string) []string {
	return append(servingFlags(port),
		"--kubeconfig="+managerConfig,
		"--authentication-kubeconfig="+managerConfig,
		"--authorization-kubeconfig="+managerConfig,
		"--controllers="+strings.Join(controllers, ","),
		"--use-service-account-credentials=true", // the roles are bound to these accounts, not to the manager
		"--service-account-private-key-file="+tokenPrivateFile,
		"--root-ca-file="+caFile,
		"--leader-elect=false",
		"--profiling=false",
	)
}

// kubeconfig is a configuration with everything inside, so that the file can be passed around.
func kubeconfig(server string, ca []byte, client pair) *clientcmdapi.Config {
	const name = "livecluster"
	c := clientcmdapi.NewConfig()
	c.Clusters[name] = &clientcmdapi.Cluster{Server: server, CertificateAuthorityData: ca}
	c.AuthInfos[name] = &clientcmdapi.AuthInfo{ClientCertificateData: client.cert, ClientKeyData: client.key}
	c.Contexts[name] = &clientcmdapi.Context{Cluster: name, AuthInfo: name}
	c.CurrentContext = name
	return c
}
