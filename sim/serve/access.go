package serve

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"fmt"
	"net"
	"os"
	"path/filepath"

	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/apiserver/pkg/authentication/group"
	"k8s.io/apiserver/pkg/authentication/request/anonymous"
	"k8s.io/apiserver/pkg/authentication/request/bearertoken"
	"k8s.io/apiserver/pkg/authentication/request/union"
	"k8s.io/apiserver/pkg/authentication/request/websocket"
	"k8s.io/apiserver/pkg/authentication/request/x509"
	tokenunion "k8s.io/apiserver/pkg/authentication/token/union"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/server/dynamiccertificates"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"k8s.io/client-go/util/cert"

	"github.com/opreplay/opreplay/sim/apiserver"
)

// Access is what a server shows of itself, and how it tells who asks.
type Access struct {
	cert   dynamiccertificates.CertKeyContentProvider
	client dynamiccertificates.CAContentProvider // nil: no client certificates
	who    authenticator.Request
	// Of NewAccess only.
	ca    []byte
	token string
}

// NewAccess makes a certificate for HOST, a name or an address, and one administrator, who has a token.
// Nobody else is let in.
func NewAccess(host string) (*Access, error) {
	certPEM, keyPEM, err := cert.GenerateSelfSignedCertKey(host, []net.IP{net.IPv4(127, 0, 0, 1)}, []string{"localhost"})
	if err != nil {
		return nil, fmt.Errorf("make a certificate for %s: %w", host, err)
	}
	shown, err := dynamiccertificates.NewStaticCertKeyContent("opsim", certPEM, keyPEM)
	if err != nil {
		return nil, err
	}
	a := &Access{cert: shown, ca: certPEM, token: hex.EncodeToString(random())}
	want := sha256.Sum256([]byte(a.token))
	a.who = bearertoken.New(authenticator.TokenFunc(func(_ context.Context, token string) (*authenticator.Response, bool, error) {
		if got := sha256.Sum256([]byte(token)); subtle.ConstantTimeCompare(got[:], want[:]) != 1 {
			return nil, false, nil
		}
		return &authenticator.Response{User: &user.DefaultInfo{Name: apiserver.Admin.Name, Groups: apiserver.Admin.Groups}}, true, nil
	}))
	return a, nil
}

func random() []byte {
	b := make([]byte, 32)
	_, _ = rand.Read(b) // crypto/rand does not fail
	return b
}

// Kubeconfig is the administrator's, with all that is needed inside. It is a secret.
func (a *Access) Kubeconfig(server string) ([]byte, error) {
	const name = "opsim"
	c := clientcmdapi.NewConfig()
	c.Clusters[name] = &clientcmdapi.Cluster{Server: server, CertificateAuthorityData: a.ca}
	c.AuthInfos[name] = &clientcmdapi.AuthInfo{Token: a.token}
	c.Contexts[name] = &clientcmdapi.Context{Cluster: name, AuthInfo: name}
	c.CurrentContext = name
	return clientcmd.Write(*c)
}

// Files are those that kube-apiserver's flags name.
type Files struct {
	// Cert and Key are the server's (--tls-cert-file, --tls-private-key-file). Both "": apiserver.crt and
	// apiserver.key in Dir, which are made if they are not there.
	Cert, Key, Dir string
	// Host is for a certificate that is made: an address or a name.
	Host string
	// ClientCA is the authority of client certificates (--client-ca-file); "": none are taken.
	ClientCA string
	// Tokens know who a bearer token was given to.
	Tokens []authenticator.Token
	// Anonymous takes who shows nothing for system:anonymous (--anonymous-auth).
	Anonymous bool
}

// FilesAccess is access as kube-apiserver's flags describe it.
func FilesAccess(f Files) (*Access, error) {
	if f.Cert == "" && f.Key == "" {
		f.Cert, f.Key = filepath.Join(f.Dir, "apiserver.crt"), filepath.Join(f.Dir, "apiserver.key")
		if err := ensureCert(f); err != nil {
			return nil, err
		}
	}
	a := &Access{}
	var err error
	if a.cert, err = dynamiccertificates.NewDynamicServingContentFromFiles("serving-cert", f.Cert, f.Key); err != nil {
		return nil, err
	}
	var requests []authenticator.Request
	if f.ClientCA != "" {
		if a.client, err = dynamiccertificates.NewDynamicCAContentFromFile("client-ca-bundle", f.ClientCA); err != nil {
			return nil, err
		}
		requests = append(requests, x509.NewDynamic(a.client.VerifyOptions, x509.CommonNameUserConversion))
	}
	if len(f.Tokens) > 0 {
		all := tokenunion.New(f.Tokens...)
		requests = append(requests, bearertoken.New(all), websocket.NewProtocolAuthenticator(all))
	}
	a.who = group.NewAuthenticatedGroupAdder(union.New(requests...))
	if f.Anonymous {
		// The first that knows the client decides; an error of one is the answer only if nobody does.
		a.who = union.NewFailOnError(a.who, anonymous.NewAuthenticator(nil))
	}
	return a, nil
}

// ensureCert makes a certificate where there is none, as kube-apiserver does.
func ensureCert(f Files) error {
	if _, err := os.Stat(f.Cert); !os.IsNotExist(err) {
		return err
	}
	certPEM, keyPEM, err := cert.GenerateSelfSignedCertKey(f.Host, nil, []string{"kubernetes.default.svc", "kubernetes.default", "kubernetes", "localhost"})
	if err != nil {
		return err
	}
	if err := os.MkdirAll(f.Dir, 0o700); err != nil {
		return err
	}
	if err := os.WriteFile(f.Cert, certPEM, 0o600); err != nil {
		return err
	}
	return os.WriteFile(f.Key, keyPEM, 0o600)
}
