package versus

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	corev1apply "k8s.io/client-go/applyconfigurations/core/v1"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/yaml"
)

const widgetCRD = `
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: widgets.example.com}
spec:
  group: example.com
  scope: Namespaced
  names: {plural: widgets, singular: widget, kind: Widget}
  versions:
  - name: v1
    served: true
    storage: true
    subresources: {status: {}}
    schema:
      openAPIV3Schema:
        type: object
        properties:
          spec:
            type: object
            x-kubernetes-validations:
            - rule: "self.replicas <= 10"
            properties:
              color: {type: string, default: blue}
              replicas: {type: integer, default: 1}
              size: {type: integer}
          status:
            type: object
            properties:
              phase: {type: string}
`

var (
	crdGVR    = schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"}
	widgetGVR = schema.GroupVersionResource{Group: "example.com", Version: "v1", Resource: "widgets"}
)

// kind is one kind of object as a client of one server works with it. N is what the change is to be.
type kind interface {
	create(ctx context.Context, name string) error
	get(ctx context.Context, name string) error
	update(ctx context.Context, name string, n int) error
	patch(ctx context.Context, name string, n int) error
	apply(ctx context.Context, name string, n int) error
	delete(ctx context.Context, name string) error
	watch(ctx context.Context) (watch.Interface, error)
	list() string // its URL
}

// connection is what all workers of one server share.
type connection struct {
	http    *http.Client
	host    string
	widgets dynamic.ResourceInterface
	maps    corev1client.ConfigMapInterface
}

func connect(b testing.TB, s *server) *connection {
	b.Helper()
	client, err := rest.HTTPClientFor(s.config)
	if err != nil {
		b.Fatal(err)
	}
	dyn, err := dynamic.NewForConfigAndClient(s.config, client)
	if err != nil {
		b.Fatal(err)
	}
	kub, err := kubernetes.NewForConfigAndClient(s.config, client)
	if err != nil {
		b.Fatal(err)
	}
	crd := &unstructured.Unstructured{}
	if err := yaml.Unmarshal([]byte(widgetCRD), &crd.Object); err != nil {
		b.Fatal(err)
	}
	if _, err := dyn.Resource(crdGVR).Create(b.Context(), crd, metav1.CreateOptions{}); err != nil {
		b.Fatal(err)
	}
	c := &connection{http: client, host: s.config.Host, widgets: dyn.Resource(widgetGVR).Namespace("default"), maps: kub.CoreV1().ConfigMaps("default")}
	for { // the real server takes a while to serve a new kind, and two seconds more to let it be written
		if err := c.widget().create(b.Context(), "first"); err == nil {
			break
		}
		select {
		case <-time.After(10 * time.Millisecond):
		case <-b.Context().Done():
			b.Fatal("widgets are not served")
		}
	}
	if err := c.widget().delete(b.Context(), "first"); err != nil {
		b.Fatal(err)
	}
	return c
}

func (c *connection) widget() kind    { return &widgets{c, &sync.Map{}} }
func (c *connection) configMap() kind { return &configMaps{c, &sync.Map{}} }

// read asks for URL and throws the answer away.
func (c *connection) read(ctx context.Context, url string) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	req.Header.Set("Accept", "application/json")
	resp, err := c.http.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("%s: %s", url, resp.Status)
	}
	_, err = io.Copy(io.Discard, resp.Body)
	return err
}

// widgets are custom resources: JSON, a schema, a CEL rule.
type widgets struct {
	c    *connection
	last *sync.Map // what the server answered, by name
}

func (k *widgets) keep(u *unstructured.Unstructured, err error) error {
	if err == nil {
		k.last.Store(u.GetName(), u)
	}
	return err
}

func (k *widgets) create(ctx context.Context, name string) error {
	u := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "example.com/v1", "kind": "Widget",
		"metadata": map[string]any{"name": name, "labels": map[string]any{"app": "bench"}},
		"spec":     map[string]any{"size": int64(0)},
	}}
	return k.keep(k.c.widgets.Create(ctx, u, metav1.CreateOptions{}))
}

func (k *widgets) get(ctx context.Context, name string) error {
	return k.keep(k.c.widgets.Get(ctx, name, metav1.GetOptions{}))
}

func (k *widgets) update(ctx context.Context, name string, n int) error {
	v, _ := k.last.Load(name)
	u := v.(*unstructured.Unstructured)
	if err := unstructured.SetNestedField(u.Object, int64(n), "spec", "size"); err != nil {
		return err
	}
	return k.keep(k.c.widgets.Update(ctx, u, metav1.UpdateOptions{}))
}

func (k *widgets) patch(ctx context.Context, name string, n int) error {
	body := fmt.Appendf(nil, `{"status":{"phase":"Phase%d"}}`, n)
	return k.keep(k.c.widgets.Patch(ctx, name, types.MergePatchType, body, metav1.PatchOptions{}, "status"))
}

func (k *widgets) apply(ctx context.Context, name string, n int) error {
	u := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "example.com/v1", "kind": "Widget",
		"metadata": map[string]any{"name": name},
		"spec":     map[string]any{"replicas": int64(n%9 + 1), "color": "red"},
	}}
	return k.keep(k.c.widgets.Apply(ctx, name, u, metav1.ApplyOptions{FieldManager: "bench", Force: true}))
}

func (k *widgets) delete(ctx context.Context, name string) error {
	return k.c.widgets.Delete(ctx, name, metav1.DeleteOptions{})
}

func (k *widgets) watch(ctx context.Context) (watch.Interface, error) {
	return k.c.widgets.Watch(ctx, metav1.ListOptions{})
}

func (k *widgets) list() string { return k.c.host + "/apis/example.com/v1/namespaces/default/widgets" }

// configMaps are a built-in kind, with a typed client.
type configMaps struct {
	c    *connection
	last *sync.Map
}

func (k *configMaps) keep(m *corev1.ConfigMap, err error) error {
	if err == nil {
		k.last.Store(m.Name, m)
	}
	return err
}

func (k *configMaps) create(ctx context.Context, name string) error {
	m := &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"app": "bench"}},
		Data:       map[string]string{"key": "value", "n": "0"},
	}
	return k.keep(k.c.maps.Create(ctx, m, metav1.CreateOptions{}))
}

func (k *configMaps) get(ctx context.Context, name string) error {
	return k.keep(k.c.maps.Get(ctx, name, metav1.GetOptions{}))
}

func (k *configMaps) update(ctx context.Context, name string, n int) error {
	v, _ := k.last.Load(name)
	m := v.(*corev1.ConfigMap)
	m.Data["n"] = strconv.Itoa(n)
	return k.keep(k.c.maps.Update(ctx, m, metav1.UpdateOptions{}))
}

func (k *configMaps) patch(ctx context.Context, name string, n int) error {
	body := fmt.Appendf(nil, `{"data":{"patched":"%d"}}`, n)
	return k.keep(k.c.maps.Patch(ctx, name, types.StrategicMergePatchType, body, metav1.PatchOptions{}))
}

func (k *configMaps) apply(ctx context.Context, name string, n int) error {
	m := corev1apply.ConfigMap(name, "default").WithData(map[string]string{"applied": strconv.Itoa(n)})
	return k.keep(k.c.maps.Apply(ctx, m, metav1.ApplyOptions{FieldManager: "bench", Force: true}))
}

func (k *configMaps) delete(ctx context.Context, name string) error {
	return k.c.maps.Delete(ctx, name, metav1.DeleteOptions{})
}

func (k *configMaps) watch(ctx context.Context) (watch.Interface, error) {
	return k.c.maps.Watch(ctx, metav1.ListOptions{LabelSelector: "app=bench"})
}

func (k *configMaps) list() string {
	return k.c.host + "/api/v1/namespaces/default/configmaps?labelSelector=app%3Dbench"
}

// listener notes when the events of a watch arrive.
type listener struct {
	mu       sync.Mutex
	sent     map[string]time.Time // by name: when the request that leads to the next event was sent
	latency  []time.Duration
	drained  *sync.Cond // sent is empty, or the watch has ended
	ended    bool
	finished chan struct{}
}

func listen(b testing.TB, w watch.Interface) *listener {
	l := &listener{sent: map[string]time.Time{}, finished: make(chan struct{})}
	l.drained = sync.NewCond(&l.mu)
	go func() {
		defer close(l.finished)
		defer l.end()
		for ev := range w.ResultChan() {
			if ev.Type == watch.Error {
				return // the end, when the client closes it; if it is another, events will be missed
			}
			l.arrived(b, ev.Object)
		}
	}()
	return l
}

func (l *listener) arrived(b testing.TB, obj runtime.Object) {
	now := time.Now()
	m, err := meta.Accessor(obj)
	if err != nil {
		b.Errorf("watch: %T: %v", obj, err)
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if sent, ok := l.sent[m.GetName()]; ok {
		l.latency = append(l.latency, now.Sub(sent))
		delete(l.sent, m.GetName())
		if len(l.sent) == 0 {
			l.drained.Broadcast()
		}
	}
}

func (l *listener) end() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.ended = true
	l.drained.Broadcast()
}

func (l *listener) sending(name string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.sent[name] = time.Now()
}

// drain waits until all events have come, at most until the watch ends, and gives how many have not.
func (l *listener) drain() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	for len(l.sent) > 0 && !l.ended {
		l.drained.Wait()
	}
	return len(l.sent)
}
