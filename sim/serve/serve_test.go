package serve

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/apiserver/pkg/authentication/token/tokenfile"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/opreplay/opreplay/sim/apiserver"
)

// open starts a world.
func open(t *testing.T, o apiserver.Options) (*apiserver.Server, net.Listener) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	server, err := apiserver.New(ctx, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(server.Close)
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	return server, l
}

// start serves it.
func start(t *testing.T, server *apiserver.Server, l net.Listener, o Options) *Front {
	t.Helper()
	f, err := Start(server, l, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(f.Stop)
	return f
}

// adminConfig is the configuration of the kubeconfig that NewAccess makes.
func adminConfig(t *testing.T, a *Access, url string) *rest.Config {
	t.Helper()
	text, err := a.Kubeconfig(url)
	if err != nil {
		t.Fatal(err)
	}
	c, err := clientcmd.RESTConfigFromKubeConfig(text)
	if err != nil {
		t.Fatal(err)
	}
	c.QPS = -1
	return c
}

func whoAmI(t *testing.T, c *rest.Config) (string, error) {
	t.Helper()
	got, err := kubernetes.NewForConfigOrDie(c).AuthenticationV1().SelfSubjectReviews().
		Create(t.Context(), &authenticationv1.SelfSubjectReview{}, metav1.CreateOptions{})
	if err != nil {
		return "", err
	}
	u := got.Status.UserInfo
	return u.Username + " " + strings.Join(u.Groups, ","), nil
}

// impostor claims to be somebody by a header.
type impostor struct{ http.RoundTripper }

// RoundTrip implements http.RoundTripper.
func (i impostor) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("X-Remote-User", "mallory")
	return i.RoundTripper.RoundTrip(r)
}

func TestOnlyTheAdministratorIsLetIn(t *testing.T) {
	server, l := open(t, apiserver.Options{})
	access, err := NewAccess("127.0.0.1")
	if err != nil {
		t.Fatal(err)
	}
	f := start(t, server, l, Options{Access: access})
	config := adminConfig(t, access, f.URL())
	config.Wrap(func(rt http.RoundTripper) http.RoundTripper { return impostor{rt} })
	if who, err := whoAmI(t, config); err != nil || who != "kubernetes-admin system:masters,system:authenticated" {
		t.Errorf("the kubeconfig's user is %q, %v", who, err)
	}
	for _, token := range []string{"", "guess"} {
		other := rest.CopyConfig(config)
		other.BearerToken = token
		if who, err := whoAmI(t, other); !apierrors.IsUnauthorized(err) {
			t.Errorf("token %q: %q, %v, want 401", token, who, err)
		}
	}
}

// loadPast has something that can be changed: a ConfigMap, and a Pod with a budget that an eviction draws on.
func loadPast(t *testing.T, server *apiserver.Server) {
	t.Helper()
	const spec = `"spec":{"selector":{"matchLabels":{"app":"p"}},"minAvailable":0}`
	var past []apiserver.Recorded
	for _, o := range []struct{ group, version, resource, name, rest string }{
		{"", "v1", "configmaps", "old", `"data":{"k":"v"}`},
		{"", "v1", "pods", "p", `"spec":{"containers":[{"name":"c","image":"i"}]},"status":{"phase":"Running","conditions":[{"type":"Ready","status":"True"}]}`},
		{"policy", "v1", "poddisruptionbudgets", "p", spec + `,"status":{"disruptionsAllowed":1,"currentHealthy":1,"desiredHealthy":0,"expectedPods":1}`},
	} {
		past = append(past, apiserver.Recorded{
			GroupVersionResource: schema.GroupVersionResource{Group: o.group, Version: o.version, Resource: o.resource},
			Object:               []byte(`{"metadata":{"name":"` + o.name + `","namespace":"default","uid":"u-` + o.resource + `","resourceVersion":"100","labels":{"app":"p"}},` + o.rest + `}`),
		})
	}
	if err := server.Load(t.Context(), past); err != nil {
		t.Fatal(err)
	}
}

func TestReadOnly(t *testing.T) {
	server, l := open(t, apiserver.Options{ReadOnly: "this is the past"})
	access, err := NewAccess("127.0.0.1")
	if err != nil {
		t.Fatal(err)
	}
	loadPast(t, server)
	f := start(t, server, l, Options{Access: access})
	client := kubernetes.NewForConfigOrDie(adminConfig(t, access, f.URL()))
	core, ctx := client.CoreV1(), t.Context()
	cm := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "a", Namespace: "default"}}
	// Of a deletion, what the body says goes before the query.
	remove := func(query, body string) error {
		return core.RESTClient().Delete().AbsPath("/api/v1/namespaces/default/configmaps/old").Param("dryRun", query).
			SetHeader("Content-Type", "application/json").Body([]byte(body)).Do(ctx).Error()
	}
	evict := func(o metav1.DeleteOptions) error {
		return core.Pods("default").EvictV1(ctx, &policyv1.Eviction{ObjectMeta: metav1.ObjectMeta{Name: "p"}, DeleteOptions: &o})
	}
	before := server.Store().Snapshot()
	for verb, try := range map[string]func() error{
		"create": func() error { _, err := core.ConfigMaps("default").Create(ctx, cm, metav1.CreateOptions{}); return err },
		"update": func() error { _, err := core.ConfigMaps("default").Update(ctx, cm, metav1.UpdateOptions{}); return err },
		"patch": func() error {
			_, err := core.Namespaces().Patch(ctx, "default", "application/merge-patch+json", []byte(`{}`), metav1.PatchOptions{})
			return err
		},
		"delete that looks like a dry run": func() error { return remove("All", `{"kind":"DeleteOptions","apiVersion":"v1"}`) },
		"evict":                            func() error { return evict(metav1.DeleteOptions{}) },
		"delete":                           func() error { return core.Namespaces().Delete(ctx, "default", metav1.DeleteOptions{}) },
		"deletecollection": func() error {
			return core.ConfigMaps("default").DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{})
		},
		"proxy": func() error {
			_, err := core.Services("default").ProxyGet("https", "kubernetes", "443", "/", nil).DoRaw(ctx)
			return err
		},
		"logs": func() error { return core.Pods("default").GetLogs("p", &corev1.PodLogOptions{}).Do(ctx).Error() },
	} {
		err := try()
		if !apierrors.IsMethodNotSupported(err) {
			t.Errorf("%s: %v, want 405", verb, err)
		}
	}
	all := []string{metav1.DryRunAll}
	for verb, try := range map[string]func() error{
		"create": func() error {
			_, err := core.ConfigMaps("default").Create(ctx, cm, metav1.CreateOptions{DryRun: all})
			return err
		},
		"delete": func() error {
			return core.ConfigMaps("default").Delete(ctx, "old", metav1.DeleteOptions{DryRun: all})
		},
		"delete without a body": func() error { return remove("All", "") },
		"deletecollection": func() error {
			return core.ConfigMaps("default").DeleteCollection(ctx, metav1.DeleteOptions{DryRun: all}, metav1.ListOptions{})
		},
		"evict": func() error { return evict(metav1.DeleteOptions{DryRun: all}) },
	} {
		if err := try(); err != nil {
			t.Errorf("%s as a dry run: %v", verb, err)
		}
	}
	if !server.Store().Snapshot().Equal(before) {
		t.Error("the world has changed")
	}
	review := &authorizationv1.SelfSubjectAccessReview{Spec: authorizationv1.SelfSubjectAccessReviewSpec{
		ResourceAttributes: &authorizationv1.ResourceAttributes{Verb: "get", Resource: "pods"},
	}}
	if _, err := client.AuthorizationV1().SelfSubjectAccessReviews().Create(ctx, review, metav1.CreateOptions{}); err != nil {
		t.Errorf("a review: %v", err)
	}
	if _, err := core.Namespaces().List(ctx, metav1.ListOptions{}); err != nil {
		t.Errorf("a list: %v", err)
	}
}

// authority is a certificate authority whose file FilesAccess reads.
type authority struct {
	key  *ecdsa.PrivateKey
	cert *x509.Certificate
	file string
}

func newAuthority(t *testing.T, dir string) *authority {
	t.Helper()
	a := &authority{file: filepath.Join(dir, "ca.crt")}
	var err error
	if a.key, err = ecdsa.GenerateKey(elliptic.P256(), rand.Reader); err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "ca"}, IsCA: true, BasicConstraintsValid: true,
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), KeyUsage: x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, a.key.Public(), a.key)
	if err != nil {
		t.Fatal(err)
	}
	if a.cert, err = x509.ParseCertificate(der); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(a.file, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), 0o600); err != nil {
		t.Fatal(err)
	}
	return a
}

// client issues a client certificate.
func (a *authority) client(t *testing.T, name string, groups ...string) (certPEM, keyPEM []byte) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: name, Organization: groups},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}, KeyUsage: x509.KeyUsageDigitalSignature,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, a.cert, key.Public(), a.key)
	if err != nil {
		t.Fatal(err)
	}
	keyDER, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}),
		pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: keyDER})
}

// Who asks is told by certificate, by static token, by a service account's token, or is nobody: as
// kube-apiserver's flags say.
func TestWhoAsks(t *testing.T) {
	dir := t.TempDir()
	list := filepath.Join(dir, "tokens.csv")
	if err := os.WriteFile(list, []byte("t0k3n,bob,7,\"devs,ops\"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	known, err := tokenfile.NewCSV(list)
	if err != nil {
		t.Fatal(err)
	}
	server, l := open(t, apiserver.Options{Live: true, Tokens: apiserver.Tokens{Others: known}})
	ca, foreign := newAuthority(t, dir), newAuthority(t, t.TempDir())
	access, err := FilesAccess(Files{
		Dir: dir, Host: "127.0.0.1", ClientCA: ca.file, Anonymous: true, Tokens: []authenticator.Token{known, server},
	})
	if err != nil {
		t.Fatal(err)
	}
	f := start(t, server, l, Options{Access: access})
	base := &rest.Config{Host: f.URL(), QPS: -1, TLSClientConfig: rest.TLSClientConfig{CAFile: filepath.Join(dir, "apiserver.crt")}}
	admin := rest.CopyConfig(base)
	admin.CertData, admin.KeyData = ca.client(t, "root", "system:masters")
	accounts := kubernetes.NewForConfigOrDie(admin).CoreV1().ServiceAccounts("default")
	if _, err := accounts.Create(t.Context(), &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "robot"}}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	issued, err := accounts.CreateToken(t.Context(), "robot", &authenticationv1.TokenRequest{}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		with func(*rest.Config)
		want string
	}{
		"certificate":       {func(c *rest.Config) { c.CertData, c.KeyData = ca.client(t, "alice", "staff") }, "alice staff,system:authenticated"},
		"other's authority": {func(c *rest.Config) { c.CertData, c.KeyData = foreign.client(t, "alice") }, ""},
		"static token":      {func(c *rest.Config) { c.BearerToken = "t0k3n" }, "bob devs,ops,system:authenticated"},
		"unknown token":     {func(c *rest.Config) { c.BearerToken = "guess" }, ""},
		"service account": {
			func(c *rest.Config) { c.BearerToken = issued.Status.Token },
			"system:serviceaccount:default:robot system:serviceaccounts,system:serviceaccounts:default,system:authenticated",
		},
		"nobody": {func(*rest.Config) {}, "system:anonymous system:unauthenticated"},
	} {
		config := rest.CopyConfig(base)
		c.with(config)
		who, err := whoAmI(t, config)
		if who != c.want || c.want == "" && !apierrors.IsUnauthorized(err) {
			t.Errorf("%s: %q, %v, want %q", name, who, err, c.want)
		}
	}
}

// Stop does not wait for watches, and their clients see an orderly end.
func TestStopEndsWatches(t *testing.T) {
	server, l := open(t, apiserver.Options{Live: true})
	access, err := NewAccess("127.0.0.1")
	if err != nil {
		t.Fatal(err)
	}
	f := start(t, server, l, Options{Access: access})
	client := kubernetes.NewForConfigOrDie(adminConfig(t, access, f.URL()))
	w, err := client.CoreV1().Namespaces().Watch(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	f.Stop()
	for range w.ResultChan() { //nolint:revive // to its end
	}
	if took := time.Since(began); took > grace {
		t.Errorf("a watch held the end up for %v", took)
	}
	if _, err := client.CoreV1().Namespaces().List(t.Context(), metav1.ListOptions{}); err == nil {
		t.Error("a stopped front answers")
	}
}

func TestLoopback(t *testing.T) {
	for address, want := range map[string]bool{
		"127.0.0.1:0": true, "localhost:80": true, "[::1]:80": true,
		"0.0.0.0:80": false, ":80": false, "10.1.2.3:80": false, "example.com:80": false, "127.0.0.1": false,
	} {
		if got := Loopback(address); got != want {
			t.Errorf("Loopback(%q) = %v", address, got)
		}
	}
}
