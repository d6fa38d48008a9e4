package conformance

import (
	"fmt"
	"regexp"
	"strings"
)

// Known is a difference that there is a reason for. Each has a test that shows it, so that one that is
// no more is taken off the list.
type Known struct {
	Name   string
	Reason string
	// Match says whether a difference is this one.
	Match func(o *Outcome, d Difference) bool
	// Shows is a sequence that has it, in the form of [Sequence.String].
	Shows string
}

var (
	givenForm  = regexp.MustCompile(`^(ip|port)#\d+$`)
	reviewTime = regexp.MustCompile(`managedFields\[\d+\]\.time$`)
	// In paths, and in the names of definitions.
	componentStatus = regexp.MustCompile(`componentstatuses|io\.k8s\.api\.core\.v1\.Component`)
)

// KnownDifferences is the list.
var KnownDifferences = []Known{
	{
		Name: "addresses",
		Reason: "A Service that gives up its cluster IP or node port and takes another gets the first that is free, often the one that it had; " +
			"a real API server draws one at random.",
		Match: func(_ *Outcome, d Difference) bool {
			real, _ := d.Real.(string)
			ours, _ := d.Ours.(string)
			return givenForm.MatchString(real) && givenForm.MatchString(ours)
		},
		Shows: `{"name":"addresses"}
{"id":1,"area":"known","verb":"create","kind":"services","method":"POST","path":"/api/v1/namespaces/${ns}/services","type":"application/json","body":"{\"metadata\":{\"name\":\"a\"},\"spec\":{\"type\":\"NodePort\",\"ports\":[{\"port\":80}]}}"}
{"id":2,"area":"known","verb":"patch","kind":"services","method":"PATCH","path":"/api/v1/namespaces/${ns}/services/a","type":"application/merge-patch+json","body":"{\"spec\":{\"type\":\"ClusterIP\",\"ports\":[{\"port\":80,\"nodePort\":null}]}}"}
{"id":3,"area":"known","verb":"patch","kind":"services","method":"PATCH","path":"/api/v1/namespaces/${ns}/services/a","type":"application/merge-patch+json","body":"{\"spec\":{\"type\":\"NodePort\"}}"}`,
	},
	{
		Name: "componentstatuses",
		Reason: "The resource componentstatuses, deprecated since 1.19, asks etcd, scheduler and controller manager for their health. There are none " +
			"to ask, so it is not served, and not in discovery and OpenAPI.",
		Match: func(o *Outcome, d Difference) bool {
			return componentStatus.MatchString(d.Path) || componentStatus.MatchString(o.Op.Path) ||
				strings.HasSuffix(d.Path, "resources") && componentStatus.MatchString(text(d.Real)) && !componentStatus.MatchString(text(d.Ours))
		},
		Shows: `{"name":"componentstatuses"}
{"id":1,"area":"known","verb":"list","kind":"componentstatuses","path":"/api/v1/componentstatuses"}
{"id":2,"area":"known","verb":"get","kind":"discovery","path":"/openapi/v3/api/v1"}`,
	},
	{
		Name: "index",
		Reason: "GET / lists the paths of a server's own parts, the health of its hooks and caches among them. Ours has fewer parts: no aggregator, " +
			"no priority and fairness, no metrics.",
		Match: func(o *Outcome, d Difference) bool { return o.Op.Path == "/" && d.Path == "body.paths" },
		Shows: `{"name":"index"}
{"id":1,"area":"known","verb":"get","kind":"discovery","path":"/"}`,
	},
	{
		Name:   "no such document",
		Reason: "An OpenAPI document that there is not, in a form that there is not, is 404 from the real server's aggregator and 406 from ours, which looks at the form first.",
		Match: func(o *Outcome, d Difference) bool {
			return strings.HasPrefix(o.Op.Path, "/openapi/v3/") && o.Real.Code == 404 && o.Ours.Code == 406
		},
		Shows: `{"name":"no such document"}
{"id":1,"area":"known","verb":"get","kind":"discovery","path":"/openapi/v3/apis/nothing/v1","accept":"text/html"}`,
	},
	{
		Name:   "questions as metadata",
		Reason: "A review that is asked for as PartialObjectMetadata or Table has the wall clock's times in its metadata; in its own form it has the world's.",
		Match: func(o *Outcome, d Difference) bool {
			return (strings.HasSuffix(d.Path, "metadata.creationTimestamp") || reviewTime.MatchString(d.Path)) && strings.Contains(o.Op.Kind, "reviews") && strings.Contains(o.Op.Accept, "as=")
		},
		Shows: `{"name":"questions as metadata"}
{"id":1,"area":"known","verb":"create","kind":"selfsubjectreviews.authentication.k8s.io","method":"POST","path":"/apis/authentication.k8s.io/v1/selfsubjectreviews","type":"application/json","accept":"application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io","body":"{}"}`,
	},
	{
		Name: "Services in watches",
		Reason: "A Service that has become an ExternalName shows in a watch's event the spec.internalTrafficPolicy that it had, when three or more " +
			"watch Services: for them the event is encoded once, as it is stored. Everywhere else, and always in ours, the field is taken away as the object is read.",
		Match: func(o *Outcome, d Difference) bool {
			return o.Op.Kind == "services" && o.Op.Do == Watch && strings.HasSuffix(d.Path, "object.spec.internalTrafficPolicy") && d.Ours == Absent
		},
		Shows: `{"name":"Services in watches"}
{"id":1,"area":"known","verb":"create","kind":"services","method":"POST","path":"/api/v1/namespaces/${ns}/services","type":"application/json","body":"{\"metadata\":{\"name\":\"b\"},\"spec\":{\"ports\":[{\"port\":80}]}}"}
{"id":2,"area":"known","verb":"watch","kind":"services","do":"watch","path":"/api/v1/namespaces/${ns}/services?watch=true&resourceVersion=${1.metadata.resourceVersion}","settle":"/api/v1/namespaces/${ns}/services"}
{"id":3,"area":"known","verb":"watch","kind":"services","do":"watch","path":"/api/v1/namespaces/${ns}/services?watch=true&resourceVersion=${1.metadata.resourceVersion}"}
{"id":4,"area":"known","verb":"watch","kind":"services","do":"watch","path":"/api/v1/namespaces/${ns}/services?watch=true&resourceVersion=${1.metadata.resourceVersion}"}
{"id":5,"area":"known","verb":"patch","kind":"services","method":"PATCH","path":"/api/v1/namespaces/${ns}/services/b","type":"application/merge-patch+json","body":"{\"spec\":{\"externalName\":\"example.com\",\"type\":\"ExternalName\"}}"}`,
	},
	{
		Name:   "too large and there already",
		Reason: "A create of an object that is too large for etcd, and whose name is taken: the real server hears from etcd that it is too large, ours looks at the name before it encodes it.",
		Match: func(o *Outcome, d Difference) bool {
			return o.Real.Code == 500 && o.Ours.Code == 409 && strings.Contains(string(o.Real.Body), "etcdserver: request is too large")
		},
		Shows: `{"name":"too large"}
{"id":2,"area":"known","verb":"create","kind":"secrets","method":"POST","path":"/apis/apps/v1/namespaces/${ns}/controllerrevisions","type":"application/json","body":"{\"metadata\":{\"name\":\"a\"},\"revision\":1,\"data\":{\"k\":\"v\"}}"}
{"id":3,"area":"known","verb":"create","kind":"secrets","method":"POST","path":"/apis/apps/v1/namespaces/${ns}/controllerrevisions","type":"application/json","body":"{\"metadata\":{\"name\":\"a\"},\"revision\":1,\"data\":{\"k\":\"${fill:1600000}\"}}"}`,
	},
	{
		Name: "token errors",
		Reason: "A TokenReview of a token for another audience says in status.error what each of the real server's token authenticators thinks; " +
			"ours has one for service accounts, so it says less.",
		Match: func(o *Outcome, d Difference) bool {
			real, _ := d.Real.(string)
			ours, _ := d.Ours.(string)
			return strings.HasSuffix(d.Path, "status.error") && strings.HasPrefix(o.Op.Kind, "tokenreviews") && real == "[invalid bearer token, "+ours+"]"
		},
		Shows: `{"name":"token errors"}
{"id":1,"area":"known","verb":"create","kind":"serviceaccounts","method":"POST","path":"/api/v1/namespaces/${ns}/serviceaccounts","type":"application/json","body":"{\"metadata\":{\"name\":\"sa\"}}"}
{"id":2,"area":"known","verb":"token","kind":"serviceaccounts","method":"POST","path":"/api/v1/namespaces/${ns}/serviceaccounts/sa/token","type":"application/json","body":"{\"spec\":{\"audiences\":[\"other\"]}}"}
{"id":3,"area":"known","verb":"create","kind":"tokenreviews.authentication.k8s.io","method":"POST","path":"/apis/authentication.k8s.io/v1/tokenreviews","type":"application/json","body":"{\"spec\":{\"token\":\"${2.status.token}\"}}"}`,
	},
}

// KnownMarkdown is the list for people.
func KnownMarkdown() string {
	var b strings.Builder
	for _, k := range KnownDifferences {
		fmt.Fprintf(&b, "- **%s**. %s\n", k.Name, k.Reason)
	}
	return b.String()
}
