package cluster

import (
	"crypto/ed25519"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"net/netip"
	"strings"
	"time"

	"github.com/opreplay/opreplay/sim/process/virtual"
)

// DefaultHost is the address of the API server's Service in a new world.
var DefaultHost = netip.MustParseAddr("10.96.0.1")

// ServiceAccountDir is where a pod finds who it is (k8s.io/client-go/rest.InClusterConfig).
const ServiceAccountDir = "/var/run/secrets/kubernetes.io/serviceaccount"

// KubeconfigFile is where a process that has a kubeconfig finds it.
const KubeconfigFile = "/etc/opsim/kubeconfig"

// The two ports of the API server: with TLS, as in a cluster, and without, which costs a process less.
const (
	SecurePort = 443
	PlainPort  = 8080
)

// Access is the API server as the processes of a world reach it. It is the same in every world with the
// same address: the keys are no secret and prove nothing outside of it.
type Access struct {
	Host netip.Addr // of the Service default/kubernetes
	ca   []byte     // PEM
	tls  *tls.Config
}

// NewAccess is access by the given address; the zero Addr means DefaultHost. NOW is the world's clock.
func NewAccess(host netip.Addr, now func() time.Time) (*Access, error) {
	if !host.IsValid() {
		host = DefaultHost
	}
	ca, caKey := authority()
	leaf := &x509.Certificate{
		SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: "kube-apiserver"},
		NotBefore: ca.NotBefore, NotAfter: ca.NotAfter,
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
		DNSNames: []string{
			"kubernetes", "kubernetes.default", "kubernetes.default.svc", "kubernetes.default.svc.cluster.local", "localhost",
		},
		IPAddresses: []net.IP{host.AsSlice(), net.IPv4(127, 0, 0, 1)},
	}
	key := keyFor("kube-apiserver")
	caDER, err := sign(ca, ca, caKey, caKey)
	if err != nil {
		return nil, err
	}
	leafDER, err := sign(leaf, ca, key, caKey)
	if err != nil {
		return nil, err
	}
	return &Access{
		Host: host, ca: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: caDER}),
		tls: &tls.Config{
			Certificates: []tls.Certificate{{Certificate: [][]byte{leafDER}, PrivateKey: key}},
			MinVersion:   tls.VersionTLS12,
			NextProtos:   []string{"http/1.1", "h2"}, // one call at a time on a connection is simpler and costs less
			Time:         now,
			// A ticket's contents and age would depend on the wall clock.
			SessionTicketsDisabled: true,
		},
	}, nil
}

// keyFor is a key made of a name. Ed25519's signatures do not draw randomness and are of one length, so
// that two runs send records of the same sizes.
func keyFor(name string) ed25519.PrivateKey {
	seed := sha256.Sum256([]byte("opsim " + name))
	return ed25519.NewKeyFromSeed(seed[:])
}

func authority() (*x509.Certificate, ed25519.PrivateKey) {
	key := keyFor("cluster CA")
	id := sha256.Sum256(key.Public().(ed25519.PublicKey))
	return &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "kubernetes"},
		// Wide enough for any recording, and before 2050, from where on dates are written in another form.
		NotBefore: time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC), NotAfter: time.Date(2049, 12, 31, 0, 0, 0, 0, time.UTC),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageCRLSign | x509.KeyUsageDigitalSignature,
		SubjectKeyId: id[:20],
	}, key
}

// sign makes a certificate. With a serial number given and Ed25519 keys nothing random goes into it.
func sign(c, parent *x509.Certificate, key, parentKey ed25519.PrivateKey) ([]byte, error) {
	der, err := x509.CreateCertificate(rand.Reader, c, parent, key.Public(), parentKey)
	if err != nil {
		return nil, fmt.Errorf("certificate of %s: %w", c.Subject.CommonName, err)
	}
	return der, nil
}

// TLS is what the API server answers with on SecurePort.
func (a *Access) TLS() *tls.Config { return a.tls }

// Plain is where the API server is reached without TLS.
func (a *Access) Plain() netip.AddrPort { return netip.AddrPortFrom(a.Host, PlainPort) }

// Secure is where the API server is reached with TLS.
func (a *Access) Secure() netip.AddrPort { return netip.AddrPortFrom(a.Host, SecurePort) }

// ServiceAccount is the identity of a pod.
type ServiceAccount struct{ Namespace, Name string }

// ParseServiceAccount takes apart a user name of the form system:serviceaccount:NAMESPACE:NAME.
func ParseServiceAccount(user string) (sa ServiceAccount, ok bool) {
	rest, ok := strings.CutPrefix(user, "system:serviceaccount:")
	if !ok {
		return sa, false
	}
	sa.Namespace, sa.Name, ok = strings.Cut(rest, ":")
	return sa, ok && sa.Namespace != "" && sa.Name != ""
}

// User is the service account's user name.
func (sa ServiceAccount) User() string {
	return "system:serviceaccount:" + sa.Namespace + ":" + sa.Name
}

// InCluster makes a process one that runs in the cluster: it has a service account's files and the
// variables of the API server's Service, and no kubeconfig.
func (a *Access) InCluster(s *virtual.Spec, sa ServiceAccount) {
	a.addFile(s, ServiceAccountDir+"/token", []byte(sa.token()))
	a.addFile(s, ServiceAccountDir+"/ca.crt", a.ca)
	a.addFile(s, ServiceAccountDir+"/namespace", []byte(sa.Namespace))
	host, port := a.Host.String(), fmt.Sprint(SecurePort)
	at := "tcp://" + a.Secure().String()
	s.Env = append(s.Env,
		"KUBERNETES_SERVICE_HOST="+host, "KUBERNETES_SERVICE_PORT="+port, "KUBERNETES_SERVICE_PORT_HTTPS="+port,
		"KUBERNETES_PORT="+at, "KUBERNETES_PORT_443_TCP="+at, "KUBERNETES_PORT_443_TCP_PROTO=tcp",
		"KUBERNETES_PORT_443_TCP_PORT="+port, "KUBERNETES_PORT_443_TCP_ADDR="+host)
}

// ByKubeconfig makes a process one that finds the API server by KUBECONFIG, without TLS.
func (a *Access) ByKubeconfig(s *virtual.Spec) {
	a.addFile(s, KubeconfigFile, fmt.Appendf(nil, `apiVersion: v1
kind: Config
clusters:
- name: opsim
  cluster: {server: "http://%s"}
users:
- name: operator
  user: {}
contexts:
- name: opsim
  context: {cluster: opsim, user: operator, namespace: default}
current-context: opsim
`, a.Plain()))
	s.Env = append(s.Env, "KUBECONFIG="+KubeconfigFile)
}

func (a *Access) addFile(s *virtual.Spec, name string, b []byte) {
	if s.Files == nil {
		s.Files = map[string][]byte{}
	}
	s.Files[name] = b
}

// token is a JSON Web Token as a pod's: programs read their own name in it. Nobody checks its signature.
func (sa ServiceAccount) token() string {
	part := func(v any) string {
		b, _ := json.Marshal(v) // maps of strings always marshal
		return base64.RawURLEncoding.EncodeToString(b)
	}
	const issuer = "https://kubernetes.default.svc.cluster.local"
	return part(map[string]any{"alg": "none"}) + "." + part(map[string]any{
		"iss": issuer, "aud": []string{issuer}, "sub": sa.User(), "iat": 946684800, "exp": 2524607999,
		"kubernetes.io": map[string]any{
			"namespace": sa.Namespace, "serviceaccount": map[string]string{"name": sa.Name},
		},
	}) + "."
}
