package front

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/opreplay/opreplay/sim/wire"
)

// TestDiscoveryOfWhatIsGone: a client that has a copy of discovery, or asks for another form of it, learns what is gone.
func TestDiscoveryOfWhatIsGone(t *testing.T) {
	s := newStage(t, 1, "faults:\n- unserve: {version: apps/v1, at: \"CREATE configmaps\"}\n")
	defer s.d.Close()
	p := &pipe{}
	s.d.Accept(Client{Process: "op", User: "op", Groups: []string{"system:masters"}}, p, wire.Options{})
	ask := func(method, path, body string, header ...string) (int, string, string) {
		t.Helper()
		fmt.Fprintf(&p.in, "%s %s HTTP/1.1\r\nHost: w\r\n%s\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s",
			method, path, strings.Join(header, "\r\n"), len(body), body)
		s.steps(-1)
		resp, err := http.ReadResponse(bufio.NewReader(bytes.NewReader(p.out.Bytes())), nil)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = resp.Body.Close() }()
		text, err := io.ReadAll(resp.Body)
		if err != nil {
			t.Fatal(err)
		}
		p.out.Reset()
		return resp.StatusCode, resp.Header.Get("Etag"), string(text)
	}
	const aggregated = "Accept: application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
	code, first, body := ask("GET", "/apis", "", aggregated)
	if code != 200 || first == "" || !strings.Contains(body, `"name":"apps"`) {
		t.Fatalf("before: %d %s %.80s", code, first, body)
	}
	if code, _, body = ask("POST", "/api/v1/namespaces/default/configmaps", `{"metadata":{"name":"a"}}`, "Accept: */*"); code != 201 {
		t.Fatalf("%d %s", code, body)
	}
	code, second, body := ask("GET", "/apis", "", aggregated, "If-None-Match: "+first)
	if code != 200 || second == first || second == "" || strings.Contains(body, `"name":"apps"`) {
		t.Errorf("with a copy from before: %d, tag %.10s after %.10s, %.80s", code, second, first, body)
	}
	if code, third, body := ask("GET", "/apis", "", aggregated, "If-None-Match: "+second); code != 304 || third != second || body != "" {
		t.Errorf("with a copy from after: %d, tag %.10s after %.10s, %.80s", code, third, second, body)
	}
	code, _, body = ask("GET", "/apis", "", "Accept: application/vnd.kubernetes.protobuf, */*")
	if code != 200 || !strings.HasPrefix(body, "{") || strings.Contains(body, `"name":"apps"`) || !strings.Contains(body, `"name":"batch"`) {
		t.Errorf("asked for as protobuf: %d %.80s", code, body)
	}
	if code, _, body = ask("GET", "/apis/apps", "", "Accept: */*"); code != 404 || body != "404 page not found\n" {
		t.Errorf("a group of which nothing is left: %d %.80s", code, body)
	}
}
