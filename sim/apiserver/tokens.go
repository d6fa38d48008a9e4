package apiserver

import (
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"encoding/asn1"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"math/big"
	"time"

	"github.com/google/uuid"
	"gopkg.in/go-jose/go-jose.v2"
	"gopkg.in/go-jose/go-jose.v2/jwt"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/apiserver/pkg/authentication/group"
	"k8s.io/apiserver/pkg/authentication/request/bearertoken"
	tokenunion "k8s.io/apiserver/pkg/authentication/token/union"
	"k8s.io/apiserver/pkg/registry/rest"
	genericapiserver "k8s.io/apiserver/pkg/server"
	"k8s.io/client-go/kubernetes"
	authenticationapi "k8s.io/kubernetes/pkg/apis/authentication"
	serviceaccountstore "k8s.io/kubernetes/pkg/registry/core/serviceaccount/storage"
	"k8s.io/kubernetes/pkg/routes"
	"k8s.io/kubernetes/pkg/serviceaccount"
)

// DefaultIssuer is who issues service account tokens unless Tokens say otherwise.
const DefaultIssuer = "https://kubernetes.default.svc.cluster.local"

// Tokens is how service account tokens are issued (TokenRequest) and known again (TokenReview). The zero
// value signs with a key that all simulated worlds share, so that the same requests get the same tokens whatever
// the seed; in a live world, whose tokens may open something, with one that nobody else has.
type Tokens struct {
	Issuer string // "": DefaultIssuer
	// Signer is an *rsa.PrivateKey or *ecdsa.PrivateKey; nil: see above.
	Signer crypto.Signer
	// Keys are the public keys by which tokens are verified; none: the signer's own.
	Keys []any
	// Others, if set, knows tokens that are no service account's.
	Others authenticator.Token
}

// tokens issues and verifies.
type tokens struct {
	serviceaccount.TokenGenerator
	authenticator.Token
	issuer    string
	keys      serviceaccount.PublicKeysGetter
	audiences authenticator.Audiences
	others    authenticator.Token
}

func newTokens(o Options, client kubernetes.Interface) (*tokens, error) {
	issuer := o.Tokens.Issuer
	if issuer == "" {
		issuer = DefaultIssuer
	}
	signer, keys, err := o.tokenKeys()
	if err != nil {
		return nil, fmt.Errorf("service account tokens: %w", err)
	}
	t := &tokens{issuer: issuer, audiences: authenticator.Audiences{issuer}, others: o.Tokens.Others}
	if t.TokenGenerator, err = serviceaccount.JWTTokenGenerator(issuer, signer); err != nil {
		return nil, fmt.Errorf("service account tokens: %w", err)
	}
	if !o.Live {
		t.TokenGenerator = steadyIDs{t.TokenGenerator}
	}
	if t.keys, err = serviceaccount.StaticPublicKeysGetter(keys); err != nil {
		return nil, fmt.Errorf("service account tokens: %w", err)
	}
	t.Token = serviceaccount.JWTTokenAuthenticator([]string{issuer}, t.keys, t.audiences, serviceaccount.NewValidator(tokenObjects{client}))
	return t, nil
}

// tokenKeys is what tokens are signed with, and the public keys that they are verified by.
func (o *Options) tokenKeys() (signer any, keys []any, err error) {
	keys = o.Tokens.Keys
	var own crypto.PublicKey
	switch {
	case o.Tokens.Signer != nil:
		if len(keys) == 0 {
			keys = []any{o.Tokens.Signer.Public()}
		}
		return o.Tokens.Signer, keys, nil
	case o.Live:
		key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
		if err != nil {
			return nil, nil, err
		}
		signer, own = key, key.Public()
	default:
		steady, err := newSteadySigner()
		if err != nil {
			return nil, nil, err
		}
		signer, own = steady, steady.key.Public()
	}
	return signer, append(keys[:len(keys):len(keys)], own), nil
}

// reviewer is whom a TokenReview asks.
func (t *tokens) reviewer() authenticator.Request {
	all := t.Token
	if t.others != nil {
		all = tokenunion.New(authenticator.WrapAudienceAgnosticToken(t.audiences, t.others), t.Token)
	}
	return group.NewAuthenticatedGroupAdder(bearertoken.New(all))
}

// publish serves what others need to verify the tokens: /.well-known/openid-configuration and
// /openid/v1/jwks. As in kube-apiserver there is none for an issuer that is no https URL.
func (t *tokens) publish(s *genericapiserver.GenericAPIServer) {
	if md, err := serviceaccount.NewOpenIDMetadataProvider(t.issuer, "", s.ExternalAddress, t.keys); err == nil {
		routes.NewOpenIDMetadataServer(md).Install(s.Handler.GoRestfulContainer)
	}
}

// AuthenticateToken tells who a service account token was issued to.
func (s *Server) AuthenticateToken(ctx context.Context, token string) (*authenticator.Response, bool, error) {
	return s.tokens.AuthenticateToken(ctx, token)
}

// tokenREST is the subresource serviceaccounts/token. The registry's has the wall clock's time in its
// answer, though the token itself has the world's.
type tokenREST struct {
	*serviceaccountstore.TokenREST
	now func() time.Time
}

// Create implements rest.NamedCreater.
func (r tokenREST) Create(ctx context.Context, name string, obj runtime.Object, validate rest.ValidateObjectFunc, o *metav1.CreateOptions) (runtime.Object, error) {
	out, err := r.TokenREST.Create(ctx, name, obj, validate, o)
	if req, ok := out.(*authenticationapi.TokenRequest); ok && err == nil {
		lives := req.Status.ExpirationTimestamp.Sub(req.CreationTimestamp.Time)
		req.CreationTimestamp = metav1.NewTime(r.now())
		req.Status.ExpirationTimestamp = metav1.NewTime(req.CreationTimestamp.Add(lives))
		retime(req, r.now())
	}
	return out, err
}

// steadyIDs gives a token an id that is made of what it says; the usual one is random.
type steadyIDs struct{ serviceaccount.TokenGenerator }

// GenerateToken implements serviceaccount.TokenGenerator.
func (g steadyIDs) GenerateToken(ctx context.Context, claims *jwt.Claims, private any) (string, error) {
	same := *claims
	same.ID = ""
	text, err := json.Marshal([]any{same, private})
	if err != nil {
		return "", err
	}
	same.ID = uuid.NewHash(sha256.New(), uuid.Nil, text, 8).String()
	return g.TokenGenerator.GenerateToken(ctx, &same, private)
}

// steadySigner signs as a function of key and payload (RFC 6979); the usual ECDSA signature is random.
type steadySigner struct {
	key *ecdsa.PrivateKey
	id  string
}

func newSteadySigner() (*steadySigner, error) {
	var raw [32]byte
	_, _ = seeded(0).Read(raw[:]) // does not fail
	raw[0] &= 0x7f                // below the order of the curve
	key, err := ecdsa.ParseRawPrivateKey(elliptic.P256(), raw[:])
	if err != nil {
		return nil, err
	}
	der, err := x509.MarshalPKIXPublicKey(key.Public())
	if err != nil {
		return nil, err
	}
	sum := sha256.Sum256(der) // as k8s.io/kubernetes/pkg/serviceaccount derives key ids
	return &steadySigner{key: key, id: base64.RawURLEncoding.EncodeToString(sum[:])}, nil
}

// Public implements jose.OpaqueSigner.
func (s *steadySigner) Public() *jose.JSONWebKey {
	return &jose.JSONWebKey{Key: s.key.Public(), KeyID: s.id, Algorithm: string(jose.ES256), Use: "sig"}
}

// Algs implements jose.OpaqueSigner.
func (s *steadySigner) Algs() []jose.SignatureAlgorithm { return []jose.SignatureAlgorithm{jose.ES256} }

// SignPayload implements jose.OpaqueSigner.
func (s *steadySigner) SignPayload(payload []byte, _ jose.SignatureAlgorithm) ([]byte, error) {
	sum := sha256.Sum256(payload)
	der, err := s.key.Sign(nil, sum[:], crypto.SHA256)
	if err != nil {
		return nil, err
	}
	var sig struct{ R, S *big.Int }
	if _, err := asn1.Unmarshal(der, &sig); err != nil {
		return nil, err
	}
	out := make([]byte, 64)
	sig.R.FillBytes(out[:32])
	sig.S.FillBytes(out[32:])
	return out, nil
}

// tokenObjects implements serviceaccount.ServiceAccountTokenGetter: what a token is bound to must be there
// still.
type tokenObjects struct{ kubernetes.Interface }

func (c tokenObjects) GetServiceAccount(ctx context.Context, namespace, name string) (*corev1.ServiceAccount, error) {
	return c.CoreV1().ServiceAccounts(namespace).Get(ctx, name, metav1.GetOptions{})
}

func (c tokenObjects) GetPod(ctx context.Context, namespace, name string) (*corev1.Pod, error) {
	return c.CoreV1().Pods(namespace).Get(ctx, name, metav1.GetOptions{})
}

func (c tokenObjects) GetSecret(ctx context.Context, namespace, name string) (*corev1.Secret, error) {
	return c.CoreV1().Secrets(namespace).Get(ctx, name, metav1.GetOptions{})
}

func (c tokenObjects) GetNode(ctx context.Context, name string) (*corev1.Node, error) {
	return c.CoreV1().Nodes().Get(ctx, name, metav1.GetOptions{})
}

func (c tokenObjects) GetValidatingWebhookConfiguration(ctx context.Context, name string) (*admissionregistrationv1.ValidatingWebhookConfiguration, error) {
	return c.AdmissionregistrationV1().ValidatingWebhookConfigurations().Get(ctx, name, metav1.GetOptions{})
}

func (c tokenObjects) GetMutatingWebhookConfiguration(ctx context.Context, name string) (*admissionregistrationv1.MutatingWebhookConfiguration, error) {
	return c.AdmissionregistrationV1().MutatingWebhookConfigurations().Get(ctx, name, metav1.GetOptions{})
}
