package recorder

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/rest"

	"github.com/opreplay/opreplay/internal/apicall"
)

// A reflector (client-go's tools/cache) drives the lists and watches: start by a streaming list where
// the server has it, resume at the last resource version, relist after 410. Below it lies not a typed
// or dynamic client but rawSource, whose objects are the bytes that the server sent, because
//   - the trace refers to an answer by its bytes: unstructured objects would come back with sorted keys,
//     and every answer of a built-in kind that the proxy saw would be stored a second time;
//   - decoding and encoding costs five to ten times what finding the metadata in the text does.

// rawObject is an object of which only the metadata was read.
type rawObject struct {
	metav1.TypeMeta
	metav1.ObjectMeta
	meta apicall.Meta
	raw  string
}

// DeepCopyObject implements runtime.Object. The object is never changed, so it is its own copy.
func (o *rawObject) DeepCopyObject() runtime.Object { return o }

func newRawObject(raw []byte) (*rawObject, error) {
	m, err := apicall.ParseMeta(raw)
	if err != nil {
		return nil, err
	}
	o := &rawObject{meta: m, raw: string(raw)}
	o.Kind, o.APIVersion = m.Kind, m.APIVersion
	o.Namespace, o.Name, o.ResourceVersion = m.Namespace, m.Name, m.ResourceVersion
	return o, nil
}

// rawList is a list of rawObjects.
type rawList struct {
	metav1.TypeMeta
	metav1.ListMeta
	Items []*rawObject
}

// DeepCopyObject implements runtime.Object.
func (l *rawList) DeepCopyObject() runtime.Object { return l }

// rawSource lists and watches one resource, in one namespace or in all.
type rawSource struct {
	client rest.Interface
	path   []string
	// refused is told of a watch that the server ended with a Status, such as 410.
	refused func(status []byte)
	// failed is told of every list and watch that did not come about.
	failed func(error)
}

func newRawSource(client rest.Interface, gvr schema.GroupVersionResource, namespace string) *rawSource {
	path := []string{"apis", gvr.Group, gvr.Version}
	if gvr.Group == "" {
		path = []string{"api", gvr.Version}
	}
	if namespace != "" {
		path = append(path, "namespaces", namespace)
	}
	return &rawSource{
		client: client, path: append(path, gvr.Resource),
		refused: func([]byte) {}, failed: func(error) {},
	}
}

func (s *rawSource) request(o metav1.ListOptions) *rest.Request {
	return s.client.Get().AbsPath(s.path...).
		SpecificallyVersionedParams(&o, metav1.ParameterCodec, metav1.SchemeGroupVersion).
		SetHeader("Accept", "application/json")
}

// ListWithContext implements cache.ListerWithContext.
func (s *rawSource) ListWithContext(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
	body, err := s.request(o).Do(ctx).Raw()
	if err != nil {
		s.failed(err)
		return nil, err
	}
	parsed, err := apicall.ParseList(body)
	if err != nil {
		return nil, err
	}
	list := &rawList{Items: make([]*rawObject, 0, len(parsed.Items))}
	list.ResourceVersion, list.Continue = parsed.ResourceVersion, parsed.Continue
	for _, item := range parsed.Items {
		o, err := newRawObject(item)
		if err != nil {
			return nil, err
		}
		list.Items = append(list.Items, o)
	}
	return list, nil
}

// List and Watch complete cache.ListerWatcher; the reflector calls the forms with a context.
func (s *rawSource) List(o metav1.ListOptions) (runtime.Object, error) {
	return s.ListWithContext(context.Background(), o)
}

// Watch implements cache.Watcher.
func (s *rawSource) Watch(o metav1.ListOptions) (watch.Interface, error) {
	return s.WatchWithContext(context.Background(), o)
}

// WatchWithContext implements cache.WatcherWithContext. A watch that resumes at a version doesn't come
// back with an error that waiting can heal: the reflector would relist, and what happened in between
// would be lost though the server still has it.
func (s *rawSource) WatchWithContext(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
	o.Watch = true
	resumes := o.SendInitialEvents == nil && o.ResourceVersion != "" && o.ResourceVersion != "0"
	for pause := 100 * time.Millisecond; ; pause = min(2*pause, 5*time.Second) {
		stream, err := s.request(o).MaxRetries(0).Stream(ctx)
		if err == nil {
			return newRawWatch(ctx, stream, s.refused), nil
		}
		if !resumes || !passing(err) {
			s.failed(err)
			return nil, err
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(pause):
		}
	}
}

// passing: the server or the way to it is down or busy; asking again is what helps.
func passing(err error) bool {
	if status, ok := errors.AsType[*apierrors.StatusError](err); ok {
		if apierrors.HasStatusCause(err, metav1.CauseTypeResourceVersionTooLarge) {
			return false // a server that was set back never gets there: relist
		}
		return status.ErrStatus.Code == 429 || status.ErrStatus.Code >= 500
	}
	return !errors.Is(err, context.Canceled)
}

// rawWatch reads a watch's frames.
type rawWatch struct {
	stream  io.ReadCloser
	events  chan watch.Event
	stopped chan struct{}
	stop    sync.Once
}

func newRawWatch(ctx context.Context, stream io.ReadCloser, refused func([]byte)) *rawWatch {
	w := &rawWatch{stream: stream, events: make(chan watch.Event, 100), stopped: make(chan struct{})}
	go w.read(ctx, refused)
	return w
}

// Stop implements watch.Interface.
func (w *rawWatch) Stop() {
	w.stop.Do(func() {
		close(w.stopped)
		_ = w.stream.Close()
	})
}

// ResultChan implements watch.Interface.
func (w *rawWatch) ResultChan() <-chan watch.Event { return w.events }

// shortWatch: a reflector that sees a watch end within a second and without events relists.
const shortWatch = 1100 * time.Millisecond

func (w *rawWatch) read(ctx context.Context, refused func([]byte)) {
	defer close(w.events)
	err := apicall.ReadWatch(w.stream, func(eventType string, object []byte) error {
		event, err := rawEvent(eventType, object)
		if err != nil {
			return err
		}
		if event.Type == watch.Error {
			refused(object)
		}
		select {
		case w.events <- event:
			return nil
		case <-w.stopped:
			return errStopped
		}
	})
	_ = w.stream.Close()
	if errors.Is(err, errStopped) {
		return
	}
	// The stream ended, which servers do every few minutes, or broke: the reflector resumes.
	select {
	case <-w.stopped:
	case <-ctx.Done():
	case <-time.After(shortWatch):
	}
}

var errStopped = errors.New("the watch was stopped")

func rawEvent(eventType string, object []byte) (watch.Event, error) {
	event := watch.Event{Type: watch.EventType(eventType)}
	if event.Type == watch.Error {
		status := &metav1.Status{}
		m, err := apicall.ParseMeta(object)
		if err != nil {
			return event, err
		}
		status.Status, status.Code, status.Reason = metav1.StatusFailure, m.Code, metav1.StatusReason(m.Reason)
		status.Message = fmt.Sprintf("watch ended with %d %s", m.Code, m.Reason)
		event.Object = status
		return event, nil
	}
	o, err := newRawObject(object)
	if err != nil {
		return event, err
	}
	if event.Type == watch.Bookmark && o.meta.InitialEventsEnd {
		o.Annotations = map[string]string{metav1.InitialEventsAnnotationKey: strconv.FormatBool(true)}
	}
	event.Object = o
	return event, nil
}
