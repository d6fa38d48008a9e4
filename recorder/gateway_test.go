package recorder_test

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"

	"github.com/opreplay/opreplay/recorder"
	"github.com/opreplay/opreplay/traces"
)

// apiServer is a backend that speaks TLS and HTTP/2 as a real API server does, knows its version and
// does with the rest what handler does.
func apiServer(t testing.TB, handler http.HandlerFunc) *rest.Config {
	t.Helper()
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		switch {
		case r.URL.Path == "/version":
			_ = json.NewEncoder(w).Encode(map[string]string{"gitVersion": "v1.37.2"})
		case strings.HasSuffix(r.URL.Path, "/selfsubjectreviews"):
			w.WriteHeader(http.StatusCreated)
			_, _ = io.WriteString(w, `{"kind":"SelfSubjectReview","apiVersion":"authentication.k8s.io/v1","status":{"userInfo":{"username":"jane"}}}`)
		default:
			handler(w, r)
		}
	}))
	s.EnableHTTP2 = true
	s.StartTLS()
	t.Cleanup(s.Close)
	return &rest.Config{
		Host: s.URL, BearerToken: "the-cluster's-token",
		TLSClientConfig: rest.TLSClientConfig{CAData: pemOf(s.Certificate())},
	}
}

func TestGatewayUpgrades(t *testing.T) {
	config := apiServer(t, func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer the-cluster's-token" {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		conn, rw, err := http.NewResponseController(w).Hijack()
		if err != nil {
			t.Errorf("over %s: %v", r.Proto, err)
			return
		}
		defer func() { _ = conn.Close() }()
		_, _ = rw.WriteString("HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: " + r.Header.Get("Upgrade") + "\r\n\r\n")
		_ = rw.Flush()
		_, _ = io.CopyN(conn, rw, 4)
	})
	for _, protocol := range []string{"SPDY/3.1", "websocket"} {
		recording, client := startProxy(t, config, recorder.ProxyOptions{})
		r := must[*http.Request](t)(http.NewRequestWithContext(t.Context(), "POST", client.Host+"/api/v1/namespaces/d/pods/p/exec?command=sh", nil))
		r.Header.Set("Connection", "Upgrade")
		r.Header.Set("Upgrade", protocol)
		resp := must[*http.Response](t)(http.DefaultClient.Do(r))
		if resp.StatusCode != http.StatusSwitchingProtocols {
			t.Fatal(resp.Status)
		}
		stream := resp.Body.(io.ReadWriteCloser)
		if _, err := io.WriteString(stream, "echo"); err != nil {
			t.Fatal(err)
		}
		if got := must[[]byte](t)(io.ReadAll(stream)); string(got) != "echo" {
			t.Errorf("%q", got)
		}
		_ = stream.Close()
		await(recording, "the call's row", func(q *traces.Request) bool { return q.Verb == "connect" && q.Code == 101 && q.User == "jane" })
		recording.end()
	}
}

func TestGatewayLetsInOnlyItsKubeconfig(t *testing.T) {
	config := apiServer(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/api/v1/namespaces/d/pods" || r.URL.RawQuery != "fieldSelector=a%3Db;c" {
			t.Errorf("the server was asked for %s", r.URL)
		}
		_, _ = io.WriteString(w, `{"kind":"PodList","apiVersion":"v1","metadata":{},"items":[]}`)
	})
	for _, open := range []bool{false, true} {
		recording, client := startProxy(t, config, recorder.ProxyOptions{Open: open})
		address := must[*url.URL](t)(url.Parse(client.Host))
		for _, c := range []struct {
			prefix, host string
			code         int
		}{
			{address.Path, "", http.StatusOK},
			{"", "", map[bool]int{true: http.StatusOK, false: http.StatusUnauthorized}[open]},
			{"/0123456789", "", http.StatusUnauthorized},
			{address.Path, "attacker.example.com", http.StatusUnauthorized},
		} {
			if open && c.prefix == "/0123456789" {
				continue
			}
			r := must[*http.Request](t)(http.NewRequestWithContext(t.Context(), "GET", "http://"+address.Host+c.prefix+"/api/v1/namespaces/d/pods?fieldSelector=a%3Db;c", nil))
			r.Host = c.host
			resp := must[*http.Response](t)(http.DefaultClient.Do(r))
			_ = resp.Body.Close()
			if resp.StatusCode != c.code {
				t.Errorf("open %t, prefix %q, host %q: %s", open, c.prefix, c.host, resp.Status)
			}
		}
		for _, q := range rows[traces.Request](t, recording.end()) {
			if q.Code != http.StatusOK || strings.Contains(q.Path+q.Query, address.Path) && address.Path != "" {
				t.Errorf("%+v", q)
			}
		}
	}
}

// TestGatewayLetsInWhatLosesThePath: as kubectl get --raw does, and with nobody else's password.
func TestGatewayLetsInWhatLosesThePath(t *testing.T) {
	config := apiServer(t, func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer the-cluster's-token" {
			t.Errorf("the server got %q", r.Header.Get("Authorization"))
		}
		_, _ = io.WriteString(w, `{"kind":"PodList","apiVersion":"v1","metadata":{},"items":[]}`)
	})
	recording, client := startProxy(t, config, recorder.ProxyOptions{})
	client.GroupVersion, client.NegotiatedSerializer = &schema.GroupVersion{Version: "v1"}, scheme.Codecs.WithoutConversion()
	raw := must[*rest.RESTClient](t)(rest.RESTClientFor(client))
	if body, err := raw.Get().RequestURI("/api/v1/pods?limit=1").DoRaw(t.Context()); err != nil || !strings.Contains(string(body), "PodList") {
		t.Errorf("%v: %s", err, body)
	}
	r := must[*http.Request](t)(http.NewRequestWithContext(t.Context(), "GET", "http://oprec:guess@"+must[*url.URL](t)(url.Parse(client.Host)).Host+"/api/v1/pods", nil))
	resp := must[*http.Response](t)(http.DefaultClient.Do(r))
	_ = resp.Body.Close()
	if resp.StatusCode != http.StatusUnauthorized {
		t.Errorf("with a wrong password: %s", resp.Status)
	}
	list := await(recording, "the call's row", func(q *traces.Request) bool { return q.Verb == "list" && q.Resource == "pods" })
	if list.Query != "limit=1" {
		t.Errorf("%+v", list)
	}
	recording.end()
}

func TestKubeconfig(t *testing.T) {
	path := t.TempDir() + "/kubeconfig"
	config := apiServer(t, func(http.ResponseWriter, *http.Request) {})
	recording, _ := startProxy(t, config, recorder.ProxyOptions{Kubeconfig: path, Options: recorder.Options{Namespace: "shop"}})
	info := must[os.FileInfo](t)(os.Stat(path))
	if info.Mode().Perm() != 0o600 {
		t.Errorf("mode %s", info.Mode())
	}
	if text := must[[]byte](t)(os.ReadFile(path)); strings.Contains(string(text), "the-cluster's-token") {
		t.Error("the cluster's credentials are in the clients' kubeconfig")
	}
	client, ns, err := recorder.Access{Kubeconfig: path}.Load()
	if err != nil || ns != "shop" || !strings.Contains(client.Host, "@127.0.0.1:") {
		t.Errorf("%v %q %v", client, ns, err)
	}
	recording.end()
}
