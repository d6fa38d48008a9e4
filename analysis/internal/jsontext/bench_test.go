package jsontext

import (
	"fmt"
	"strings"
	"testing"

	"github.com/opreplay/opreplay/analysis/internal/synth"
	"github.com/opreplay/opreplay/traces"
)

// versions are those of a few objects in turn, as an operator's trace has them, each with the one before it.
func versions(n int) (texts []string) {
	for r := range synth.Records(synth.Options{Rows: 100 + 12*n, Alive: 1, Passes: n}) {
		if w, ok := r.(*traces.WatchEvent); ok && w.Process == "oprec" && len(texts) < n {
			texts = append(texts, w.Object)
		}
	}
	return texts
}

type body struct {
	name  string
	texts []string
}

func bodies(n int) []body { return []body{{"site", versions(n)}, {"pod", pods(n)}} }

// BenchmarkFollow is what a version costs that changes a label or the status, and what the server changes with it.
func BenchmarkFollow(b *testing.B) {
	for _, c := range bodies(500) {
		texts := c.texts
		b.Run(c.name, func(b *testing.B) {
			var d Differ
			top := Split(texts[0])
			leaves := 0
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				next, found := d.Follow(&top, texts[(i+1)%len(texts)])
				top = next
				leaves += len(found)
			}
			b.ReportMetric(float64(leaves)/float64(b.N), "leaves/version")
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N), "ns/version")
		})
	}
}

func BenchmarkSplit(b *testing.B) {
	for _, c := range bodies(2) {
		texts := c.texts
		b.Run(c.name, func(b *testing.B) {
			b.SetBytes(int64(len(texts[1])))
			b.ReportAllocs()
			for b.Loop() {
				if top := Split(texts[1]); top.n < 3 {
					b.Fatal(top)
				}
			}
		})
	}
}

func BenchmarkGet(b *testing.B) {
	top := Split(versions(2)[1])
	b.ReportAllocs()
	for b.Loop() {
		top.Get("metadata", "deletionTimestamp")
		top.Get("metadata", "resourceVersion")
		top.Get("status", "observedGeneration")
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/3, "ns/field")
}

func BenchmarkLastManager(b *testing.B) {
	top := Split(versions(2)[1])
	known := map[string]bool{"operator": true}
	b.ReportAllocs()
	for b.Loop() {
		if top.LastManager(known) == "" {
			b.Fatal("none")
		}
	}
}

// pods are the versions of a pod of about 6 KB, in each of which one condition changes.
func pods(n int) (texts []string) {
	var env, fields strings.Builder
	for i := range 30 {
		fmt.Fprintf(&env, `{"name":"VARIABLE_%d","value":"the value of variable %d"},`, i, i)
		fmt.Fprintf(&fields, `"k:{\"name\":\"VARIABLE_%d\"}":{".":{},"f:name":{},"f:value":{}},`, i)
	}
	for i := range n {
		ready := [...]string{"True", "False"}[i%2]
		at := fmt.Sprintf("2026-05-28T20:%02d:%02dZ", i/60%60, i%60)
		condition := func(kind, status, at string) string {
			return fmt.Sprintf(`{"lastProbeTime":null,"lastTransitionTime":%q,"observedGeneration":1,"status":%q,"type":%q}`, at, status, kind)
		}
		const old = "2026-05-28T19:00:00Z"
		texts = append(texts, `{"apiVersion":"v1","kind":"Pod","metadata":{"annotations":{"example.com/owner":"shop@example.com"},"creationTimestamp":"2026-05-28T19:00:00Z","generateName":"web-7c5ddbdf54-","generation":1,`+
			`"labels":{"app":"web","pod-template-hash":"7c5ddbdf54"},"managedFields":[{"apiVersion":"v1","fieldsType":"FieldsV1","fieldsV1":{"f:metadata":{"f:labels":{".":{},"f:app":{}}},"f:spec":{"f:containers":{"k:{\"name\":\"web\"}":{`+
			`"f:env":{`+fields.String()+`".":{}},"f:image":{}}}}},"manager":"kube-controller-manager","operation":"Update","time":"2026-05-28T19:00:00Z"},`+
			`{"apiVersion":"v1","fieldsType":"FieldsV1","fieldsV1":{"f:status":{"f:conditions":{"k:{\"type\":\"Ready\"}":{".":{},"f:lastTransitionTime":{},"f:status":{}}}}},"manager":"kubelet","operation":"Update","subresource":"status","time":"`+at+`"}],`+
			`"name":"web-7c5ddbdf54-x2x7k","namespace":"shop","ownerReferences":[{"apiVersion":"apps/v1","blockOwnerDeletion":true,"controller":true,"kind":"ReplicaSet","name":"web-7c5ddbdf54","uid":"0f1c9e2a-77b1-4c7e-9d3e-000000000001"}],`+
			fmt.Sprintf(`"resourceVersion":"%d"`, 70000+i)+`,"uid":"1f1c9e2a-77b1-4c7e-9d3e-000000000001"},"spec":{"containers":[{"env":[`+env.String()+`{"name":"LAST","value":"x"}],"image":"registry.example.com/web:1.24.3","name":"web"}],"nodeName":"node-1","restartPolicy":"Always"},`+
			`"status":{"conditions":[`+strings.Join([]string{
			condition("PodReadyToStartContainers", "True", old), condition("Initialized", "True", old), condition("Ready", ready, at), condition("ContainersReady", "True", old), condition("PodScheduled", "True", old),
		}, ",")+`],"containerStatuses":[{"containerID":"containerd://5f0c9e2a77b14c7e9d3e","image":"registry.example.com/web:1.24.3","lastState":{},"name":"web","ready":true,"restartCount":0,"started":true,"state":{"running":{"startedAt":"2026-05-28T19:00:00Z"}}}],`+
			`"hostIP":"10.0.0.1","phase":"Running","podIP":"10.1.0.9","qosClass":"Burstable","startTime":"2026-05-28T19:00:00Z"}}`)
	}
	return texts
}
