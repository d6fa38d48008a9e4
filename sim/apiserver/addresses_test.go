package apiserver

import (
	"net/http"
	"net/netip"
	"testing"
)

const (
	servicePath = "/api/v1/namespaces/default/services"
	addressPath = "/apis/networking.k8s.io/v1/ipaddresses"
	rangePath   = "/apis/networking.k8s.io/v1/servicecidrs"
)

func serviceOf(name, spec string) string {
	return `{"metadata":{"name":"` + name + `"},"spec":{"ports":[{"port":80}]` + spec + `}}`
}

// Every address of a Service has an IPAddress of its name, from before the Service is stored until it is gone.
func TestIPAddresses(t *testing.T) {
	w := newWorld(t, Options{ServiceCIDR: "10.7.0.0/24"})
	want(t, w.get(rangePath+"/kubernetes"), "spec.cidrs", "[10.7.0.0/24]")
	want(t, w.get(addressPath+"/10.7.0.1"), "spec.parentRef", "map[name:kubernetes namespace:default resource:services]")
	svc := w.post(servicePath, serviceOf("a", ""))
	ip := field(svc, "spec.clusterIP")
	if ip != "10.7.0.17" { // the lowest that is not left to Services that name theirs: 16 of a /24
		t.Errorf("the Service's address is %s", ip)
	}
	want(t, w.get(addressPath+"/"+ip), "spec.parentRef", "map[name:a namespace:default resource:services]",
		"metadata.labels", "map[ipaddress.kubernetes.io/ip-family:IPv4 ipaddress.kubernetes.io/managed-by:ipallocator.k8s.io]")
	w.post(servicePath+"?dryRun=All", serviceOf("dry", `,"clusterIP":"10.7.0.9"`))
	w.missing(addressPath + "/10.7.0.9")
	w.refused(http.StatusConflict, "already exists", "POST", servicePath, jsonType, serviceOf("a", `,"clusterIP":"10.7.0.9"`))
	w.missing(addressPath + "/10.7.0.9")
	// An address may be somebody else's who is no Service.
	w.post(addressPath, `{"metadata":{"name":"10.7.0.18"},"spec":{"parentRef":{"group":"example.com","resource":"gateways","name":"g"}}}`)
	w.refused(http.StatusUnprocessableEntity, "provided IP is already allocated", "POST", servicePath, jsonType, serviceOf("b", `,"clusterIP":"10.7.0.18"`))
	w.refused(http.StatusUnprocessableEntity, "not in the valid range", "POST", servicePath, jsonType, serviceOf("b", `,"clusterIP":"10.7.0.255"`))
	w.refused(http.StatusUnprocessableEntity, "does not match the current range", "POST", servicePath, jsonType, serviceOf("b", `,"clusterIP":"10.8.0.1"`))
	want(t, w.post(servicePath, serviceOf("b", "")), "spec.clusterIP", "10.7.0.19")
	w.must(http.StatusOK, "DELETE", servicePath+"/a", jsonType, "")
	w.missing(addressPath + "/" + ip)
	// A Service that gets an address later.
	w.post(servicePath, `{"metadata":{"name":"ext"},"spec":{"type":"ExternalName","externalName":"example.com"}}`)
	w.must(http.StatusOK, "PATCH", servicePath+"/ext", mergePatch, `{"spec":{"type":"ClusterIP","externalName":null,"ports":[{"port":80}]}}`)
	want(t, w.get(addressPath+"/"+ip), "spec.parentRef", "map[name:ext namespace:default resource:services]")
	w.must(http.StatusOK, "PATCH", servicePath+"/ext", mergePatch, `{"spec":{"type":"ExternalName","externalName":"example.com","clusterIP":"","clusterIPs":null}}`)
	w.missing(addressPath + "/" + ip)
	// A range more is used when it is ready, which a controller says.
	w.post(rangePath, `{"metadata":{"name":"more"},"spec":{"cidrs":["10.9.0.0/28"]}}`)
	w.refused(http.StatusUnprocessableEntity, "does not match the current range", "POST", servicePath, jsonType, serviceOf("c", `,"clusterIP":"10.9.0.3"`))
	w.must(http.StatusOK, "PATCH", rangePath+"/more/status", mergePatch,
		`{"status":{"conditions":[{"type":"Ready","status":"True","reason":"","message":"","lastTransitionTime":"2020-01-01T00:00:00Z"}]}}`)
	w.post(servicePath, serviceOf("c", `,"clusterIP":"10.9.0.3"`))
}

func TestDualStack(t *testing.T) {
	w := newWorld(t, Options{ServiceCIDR: "10.7.0.0/24, fd00:7::/112"})
	want(t, w.get(servicePath+"/kubernetes"), "spec.clusterIPs", "[10.7.0.1]", "spec.ipFamilies", "[IPv4]")
	want(t, w.post(servicePath, serviceOf("one", "")), "spec.clusterIPs", "[10.7.0.17]", "spec.ipFamilyPolicy", "SingleStack")
	want(t, w.post(servicePath, serviceOf("both", `,"ipFamilyPolicy":"PreferDualStack"`)),
		"spec.clusterIPs", "[10.7.0.18 fd00:7::101]", "spec.ipFamilies", "[IPv4 IPv6]")
	want(t, w.get(addressPath+"/fd00:7::101"), "metadata.labels", "map[ipaddress.kubernetes.io/ip-family:IPv6 ipaddress.kubernetes.io/managed-by:ipallocator.k8s.io]")
	want(t, w.post(servicePath, serviceOf("six", `,"ipFamilies":["IPv6"]`)), "spec.clusterIPs", "[fd00:7::102]")
	w.must(http.StatusOK, "PATCH", servicePath+"/both", mergePatch, `{"spec":{"ipFamilyPolicy":"SingleStack","ipFamilies":["IPv4"],"clusterIPs":["10.7.0.18"]}}`)
	w.missing(addressPath + "/fd00:7::101")
	w.Close()

	w = newWorld(t, Options{ServiceCIDR: "fd00:7::/112"})
	want(t, w.get(servicePath+"/kubernetes"), "spec.clusterIPs", "[fd00:7::1]")
	want(t, w.post(servicePath, serviceOf("one", "")), "spec.clusterIPs", "[fd00:7::101]")
	w.refused(http.StatusUnprocessableEntity, "not configured", "POST", servicePath, jsonType, serviceOf("four", `,"ipFamilies":["IPv4"]`))
}

func TestBounds(t *testing.T) {
	for cidr, want := range map[string][3]string{
		"10.96.0.0/12":   {"10.96.0.1", "10.96.1.1", "10.111.255.254"},
		"10.0.0.0/24":    {"10.0.0.1", "10.0.0.17", "10.0.0.254"},
		"10.0.0.0/28":    {"10.0.0.1", "10.0.0.1", "10.0.0.14"},
		"fd00:1::/112":   {"fd00:1::1", "fd00:1::101", "fd00:1::ffff"},
		"fd00:1::/64":    {"fd00:1::1", "fd00:1::101", "fd00:1::ffff:ffff:ffff:ffff"},
		"fd00:1::10/124": {"fd00:1::11", "fd00:1::11", "fd00:1::1f"},
	} {
		first, dynamic, last := bounds(netip.MustParsePrefix(cidr))
		if got := [3]string{first.String(), dynamic.String(), last.String()}; got != want {
			t.Errorf("%s: %v, want %v", cidr, got, want)
		}
	}
}

// missing asserts that there is no such object.
func (w *world) missing(path string) {
	w.t.Helper()
	if code, text := w.do(http.MethodGet, path, "", ""); code != http.StatusNotFound {
		w.t.Errorf("GET %s: %d, want 404: %s", path, code, text)
	}
}
