package recorder_test

import (
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"k8s.io/client-go/rest"
)

// deployment is a Deployment as a real API server sends it, in one of its versions: status and times
// differ from version to version.
func deployment(object, version int) string {
	at := fmt.Sprintf("2026-11-30T%02d:%02d:%02dZ", version/3600%24, version/60%60, version%60)
	return fmt.Sprintf(deploymentText, object, fmt.Sprintf("%08x-1111-4222-8333-%012x", object*7919, object), version, 1+version/7, at, version%5, at)
}

const deploymentText = `{"kind":"Deployment","apiVersion":"apps/v1","metadata":{"name":"d-%[1]d","namespace":"default","uid":"%[2]s","resourceVersion":"%[3]d","generation":%[4]d,"creationTimestamp":"2026-11-30T00:00:00Z","labels":{"app":"d-%[1]d","tier":"web"},"annotations":{"deployment.kubernetes.io/revision":"%[4]d"},"managedFields":[{"manager":"manager","operation":"Update","apiVersion":"apps/v1","time":"2026-11-30T00:00:00Z","fieldsType":"FieldsV1","fieldsV1":{"f:metadata":{"f:labels":{".":{},"f:app":{},"f:tier":{}}},"f:spec":{"f:progressDeadlineSeconds":{},"f:replicas":{},"f:revisionHistoryLimit":{},"f:selector":{},"f:strategy":{"f:rollingUpdate":{".":{},"f:maxSurge":{},"f:maxUnavailable":{}},"f:type":{}},"f:template":{"f:metadata":{"f:labels":{".":{},"f:app":{}}},"f:spec":{"f:containers":{"k:{\"name\":\"web\"}":{".":{},"f:image":{},"f:imagePullPolicy":{},"f:name":{},"f:ports":{".":{},"k:{\"containerPort\":8080,\"protocol\":\"TCP\"}":{".":{},"f:containerPort":{},"f:protocol":{}}},"f:resources":{".":{},"f:limits":{".":{},"f:cpu":{},"f:memory":{}},"f:requests":{".":{},"f:cpu":{},"f:memory":{}}},"f:terminationMessagePath":{},"f:terminationMessagePolicy":{}}},"f:dnsPolicy":{},"f:restartPolicy":{},"f:schedulerName":{},"f:securityContext":{},"f:terminationGracePeriodSeconds":{}}}}}},{"manager":"kube-controller-manager","operation":"Update","apiVersion":"apps/v1","time":"%[5]s","fieldsType":"FieldsV1","fieldsV1":{"f:metadata":{"f:annotations":{".":{},"f:deployment.kubernetes.io/revision":{}}},"f:status":{"f:availableReplicas":{},"f:conditions":{".":{},"k:{\"type\":\"Available\"}":{".":{},"f:lastTransitionTime":{},"f:lastUpdateTime":{},"f:message":{},"f:reason":{},"f:status":{},"f:type":{}},"k:{\"type\":\"Progressing\"}":{".":{},"f:lastTransitionTime":{},"f:lastUpdateTime":{},"f:message":{},"f:reason":{},"f:status":{},"f:type":{}}},"f:observedGeneration":{},"f:readyReplicas":{},"f:replicas":{},"f:updatedReplicas":{}}},"subresource":"status"}]},"spec":{"replicas":5,"selector":{"matchLabels":{"app":"d-%[1]d"}},"template":{"metadata":{"labels":{"app":"d-%[1]d"}},"spec":{"containers":[{"name":"web","image":"registry.example.com/shop/web:1.4.2","ports":[{"containerPort":8080,"protocol":"TCP"}],"resources":{"limits":{"cpu":"500m","memory":"256Mi"},"requests":{"cpu":"100m","memory":"128Mi"}},"terminationMessagePath":"/dev/termination-log","terminationMessagePolicy":"File","imagePullPolicy":"IfNotPresent"}],"restartPolicy":"Always","terminationGracePeriodSeconds":30,"dnsPolicy":"ClusterFirst","securityContext":{},"schedulerName":"default-scheduler"}},"strategy":{"type":"RollingUpdate","rollingUpdate":{"maxUnavailable":"25%%","maxSurge":"25%%"}},"revisionHistoryLimit":10,"progressDeadlineSeconds":600},"status":{"observedGeneration":%[4]d,"replicas":5,"updatedReplicas":%[6]d,"readyReplicas":%[6]d,"availableReplicas":%[6]d,"conditions":[{"type":"Available","status":"True","lastUpdateTime":"%[7]s","lastTransitionTime":"%[7]s","reason":"MinimumReplicasAvailable","message":"Deployment has minimum availability."},{"type":"Progressing","status":"True","lastUpdateTime":"%[7]s","lastTransitionTime":"%[7]s","reason":"ReplicaSetUpdated","message":"ReplicaSet \"d-%[1]d-5d4f\" is progressing."}]}}`

// eventMill is a backend that serves deployments: a list of objects, then events as fast as they are
// taken. bytes counts the JSON of the objects.
func eventMill(t testing.TB, objects, events int) (*rest.Config, *atomic.Int64) {
	var bytes atomic.Int64
	config := apiServer(t, func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.URL.Path == "/api":
			_, _ = fmt.Fprint(w, `{"kind":"APIVersions","versions":["v1"]}`)
		case r.URL.Path == "/apis":
			_, _ = fmt.Fprint(w, `{"kind":"APIGroupList","apiVersion":"v1","groups":[{"name":"apps","versions":[{"groupVersion":"apps/v1","version":"v1"}],"preferredVersion":{"groupVersion":"apps/v1","version":"v1"}}]}`)
		case r.URL.Path == "/api/v1":
			_, _ = fmt.Fprint(w, `{"kind":"APIResourceList","groupVersion":"v1","resources":[]}`)
		case r.URL.Path == "/apis/apps/v1":
			_, _ = fmt.Fprint(w, `{"kind":"APIResourceList","groupVersion":"apps/v1","resources":[{"name":"deployments","singularName":"deployment","namespaced":true,"kind":"Deployment","verbs":["list","watch"]}]}`)
		case r.URL.Query().Get("sendInitialEvents") != "":
			w.WriteHeader(http.StatusUnprocessableEntity) // an older server: the reflector lists
		case r.URL.Query().Get("watch") == "":
			items := make([]string, objects)
			for i := range items {
				items[i] = deployment(i, i)
				bytes.Add(int64(len(items[i])))
			}
			_, _ = fmt.Fprintf(w, `{"kind":"DeploymentList","apiVersion":"apps/v1","metadata":{"resourceVersion":"%d"},"items":[%s]}`, objects, strings.Join(items, ","))
		default:
			for i := range events {
				object := deployment(i%objects, objects+i)
				bytes.Add(int64(len(object)))
				if _, err := fmt.Fprintf(w, `{"type":"MODIFIED","object":%s}`+"\n", object); err != nil {
					return
				}
			}
			w.(http.Flusher).Flush()
			<-r.Context().Done()
		}
	})
	return config, &bytes
}
