package livecluster

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// serviceIP is the first address of the service range, which is that of the service
// default/kubernetes.
const (
	serviceRange = "10.0.0.0/24"
	serviceIP    = "10.0.0.1"
)

// A pair is a certificate or public key with its private key, in PEM.
type pair struct{ cert, key []byte }

// authority is the cluster's own certificate authority. Its key is never written to disk.
type authority struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
	pem  []byte
}

func newAuthority() (*authority, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("make the key of the certificate authority: %w", err)
	}
	template := certificate(pkix.Name{CommonName: "opreplay-livecluster"})
	template.IsCA = true
	template.BasicConstraintsValid = true
	template.KeyUsage = x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return nil, fmt.Errorf("make the certificate authority: %w", err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, fmt.Errorf("read the certificate authority: %w", err)
	}
	return &authority{cert: cert, key: key, pem: encode("CERTIFICATE", der)}, nil
}

// certificate is what all of ours have in common. A clock that was set back an hour does no harm.
func certificate(subject pkix.Name) *x509.Certificate {
	serial, _ := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 120)) // crypto/rand does not fail
	now := time.Now()
	return &x509.Certificate{
		SerialNumber: serial,
		Subject:      subject,
		NotBefore:    now.Add(-time.Hour),
		NotAfter:     now.AddDate(1, 0, 0),
	}
}

func (a *authority) issue(template *x509.Certificate) (pair, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return pair{}, fmt.Errorf("make a key for %s: %w", template.Subject, err)
	}
	template.KeyUsage = x509.KeyUsageDigitalSignature
	der, err := x509.CreateCertificate(rand.Reader, template, a.cert, key.Public(), a.key)
	if err != nil {
		return pair{}, fmt.Errorf("make a certificate for %s: %w", template.Subject, err)
	}
	keyPEM, err := encodeKey(key)
	return pair{cert: encode("CERTIFICATE", der), key: keyPEM}, err
}

// server issues the certificate that the servers of the cluster show.
func (a *authority) server() (pair, error) {
	template := certificate(pkix.Name{CommonName: "kube-apiserver"})
	template.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}
	template.IPAddresses = []net.IP{net.IPv4(127, 0, 0, 1), net.ParseIP(serviceIP)}
	template.DNSNames = []string{"localhost", "kubernetes.default.svc"}
	return a.issue(template)
}

// client issues a client certificate. Kubernetes takes the user from the common name and the groups
// from the organizations (kubernetes.io/docs/reference/access-authn-authz/authentication, "X.509 client
// certificates").
func (a *authority) client(user string, groups ...string) (pair, error) {
	name := pkix.Name{CommonName: strings.ToValidUTF8(user, "\uFFFD")} // ASN.1 takes nothing else
	for _, g := range groups {
		name.Organization = append(name.Organization, strings.ToValidUTF8(g, "\uFFFD"))
	}
	template := certificate(name)
	template.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}
	return a.issue(template)
}

// tokenKeys makes the pair that signs and verifies service account tokens.
func tokenKeys() (pair, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return pair{}, fmt.Errorf("make the key for service account tokens: %w", err)
	}
	public, err := x509.MarshalPKIXPublicKey(key.Public())
	if err != nil {
		return pair{}, fmt.Errorf("write the key for service account tokens: %w", err)
	}
	private, err := encodeKey(key)
	return pair{cert: encode("PUBLIC KEY", public), key: private}, err
}

// writePKI writes the files that the servers read.
func writePKI(dir string, a *authority) error {
	server, err := a.server()
	if err != nil {
		return err
	}
	tokens, err := tokenKeys()
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Join(dir, "pki"), 0o700); err != nil {
		return err
	}
	for _, f := range []struct {
		name    string
		content []byte
	}{
		{caFile, a.pem},
		{serverCertFile, server.cert},
		{serverKeyFile, server.key},
		{tokenPublicFile, tokens.cert},
		{tokenPrivateFile, tokens.key},
	} {
		if err := os.WriteFile(filepath.Join(dir, f.name), f.content, 0o600); err != nil {
			return err
		}
	}
	return nil
}

// Paths are relative to the cluster's folder, which is the servers' working directory.
const (
	caFile           = "pki/ca.crt"
	serverCertFile   = "pki/server.crt"
	serverKeyFile    = "pki/server.key"
	tokenPublicFile  = "pki/tokens.pub"
	tokenPrivateFile = "pki/tokens.key"
)

func encodeKey(key *ecdsa.PrivateKey) ([]byte, error) {
	der, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		return nil, fmt.Errorf("write a private key: %w", err)
	}
	return encode("EC PRIVATE KEY", der), nil
}

func encode(kind string, der []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der})
}
