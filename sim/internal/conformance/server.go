package conformance

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"strings"
	"sync"
	"time"

	crdserver "k8s.io/apiextensions-apiserver/pkg/apiserver"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	kserializer "k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/client-go/kubernetes/scheme"
	aggregatorscheme "k8s.io/kube-aggregator/pkg/apiserver/scheme"
	"sigs.k8s.io/yaml"
)

// Server is one of the two that are asked.
type Server struct {
	Name   string // for messages
	URL    string
	Client *http.Client // as an administrator; it must not follow redirects
	// Now is the server's clock.
	Now func() time.Time
	// Fresh, if set, is called before each sequence.
	Fresh func()
}

// Answer is what a server said.
type Answer struct {
	Code   int
	Header http.Header
	Body   []byte
	// Object is the body as decoded JSON, whatever its form was; nil if it is none.
	Object any
	// Broken is why there is no answer, or only half of one.
	Broken string
	// At is when it was asked, by the server's clock.
	At time.Time
}

// UserAgent is what the operations are made with; it is in managedFields.
const UserAgent = "conformance/v1"

// maxAnswer bounds what is read of one answer: OpenAPI documents have some megabytes.
const maxAnswer = 64 << 20

func (s *Server) request(ctx context.Context, op *Op, b *binding) (*http.Request, error) {
	body, err := b.body(op)
	if err != nil {
		return nil, err
	}
	var r io.Reader
	if len(body) > 0 {
		r = bytes.NewReader(body)
	}
	if op.As == "slow" {
		r = &slowly{body: body, pause: 30 * time.Millisecond}
	}
	method := op.Method
	if method == "" {
		method = http.MethodGet
	}
	req, err := http.NewRequestWithContext(ctx, method, s.URL+b.text(op.Path), r)
	if err != nil {
		return nil, fmt.Errorf("operation %d: %w", op.ID, err)
	}
	req.Header.Set("User-Agent", UserAgent)
	req.Header.Set("Accept", "application/json")
	if op.Accept != "" {
		req.Header.Set("Accept", op.Accept)
	}
	if op.Type != "" {
		req.Header.Set("Content-Type", op.Type)
	}
	for k, v := range op.Header {
		req.Header.Set(k, b.text(v))
	}
	return req, nil
}

// slowly gives a body in three pieces with pauses between them.
type slowly struct {
	body  []byte
	pause time.Duration
	reads int
}

// Read implements io.Reader.
func (s *slowly) Read(p []byte) (int, error) {
	if len(s.body) == 0 {
		return 0, io.EOF
	}
	n := min(len(p), len(s.body)/3+1)
	if s.reads++; s.reads <= 3 {
		time.Sleep(s.pause) // that is what is slow about it
	}
	copy(p, s.body[:n])
	s.body = s.body[n:]
	return n, nil
}

// ask makes a request and reads the whole answer.
func (s *Server) ask(ctx context.Context, op *Op, b *binding) (*Answer, error) {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	req, err := s.request(ctx, op, b)
	if err != nil {
		return nil, err
	}
	a := &Answer{At: s.Now()}
	resp, err := s.Client.Do(req)
	if err != nil {
		a.Broken = broken(err)
		return a, ctx.Err()
	}
	defer resp.Body.Close() //nolint:errcheck // read to the end
	a.Code, a.Header = resp.StatusCode, resp.Header
	if a.Body, err = io.ReadAll(io.LimitReader(resp.Body, maxAnswer)); err != nil {
		a.Broken = broken(err)
	}
	a.Object = decode(resp.Header.Get("Content-Type"), a.Body)
	return a, nil
}

// askTimeout is longer than a server needs under load, and than its own limits.
const askTimeout = 90 * time.Second

// broken says how an exchange ended without the words that depend on the address.
func broken(err error) string {
	switch {
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF), strings.Contains(err.Error(), "stream error"):
		return "the exchange broke off" // a connection in HTTP/1.1, a stream in HTTP/2
	case strings.Contains(err.Error(), "connection reset"), strings.Contains(err.Error(), "broken pipe"):
		return "the connection was reset"
	}
	return err.Error()
}

// decode reads a body of whatever form; nil if it is no object in a form that is known.
func decode(contentType string, body []byte) any {
	media, _, _ := mime.ParseMediaType(contentType)
	switch {
	case strings.HasSuffix(media, "json"):
		return parse(body)
	case strings.HasSuffix(media, "yaml"):
		if j, err := yaml.YAMLToJSON(body); err == nil {
			return parse(j)
		}
	case media == runtime.ContentTypeProtobuf:
		return fromProtobuf(body)
	case media == cborType:
		return fromCBOR(body)
	case media == "text/plain" && bytes.HasPrefix(body, []byte("{")):
		return parse(body) // the list of OpenAPI documents is called that
	}
	return nil
}

func parse(body []byte) any {
	dec := json.NewDecoder(bytes.NewReader(body))
	dec.UseNumber()
	var v any
	if dec.Decode(&v) != nil {
		return nil
	}
	return v
}

// unversioned is the version of what names none: the documents of discovery.
var unversioned = schema.GroupVersionKind{Version: "v1"}

// metaCodecs know the forms that objects of all kinds are answered in.
var metaCodecs = func() kserializer.CodecFactory {
	s := runtime.NewScheme()
	if err := metav1.AddMetaToScheme(s); err != nil {
		panic(err) // types that are compiled in
	}
	s.AddUnversionedTypes(unversioned.GroupVersion(), &metav1.APIVersions{}, &metav1.APIGroupList{}, &metav1.APIGroup{}, &metav1.APIResourceList{})
	return kserializer.NewCodecFactory(s)
}()

func fromProtobuf(body []byte) any {
	for _, codecs := range []kserializer.CodecFactory{scheme.Codecs, crdserver.Codecs, aggregatorscheme.Codecs, metaCodecs} {
		obj, gvk, err := codecs.UniversalDeserializer().Decode(body, &unversioned, nil)
		if err != nil {
			continue
		}
		obj.GetObjectKind().SetGroupVersionKind(*gvk)
		j, err := json.Marshal(obj)
		if err != nil {
			return nil
		}
		return parse(j)
	}
	return nil
}

// stream is an open watch, or the answer to a watch that was refused.
type stream struct {
	op     *Op
	answer *Answer
	close  func()
	ended  chan struct{}

	mu     sync.Mutex
	events []any
}

func (s *Server) watch(ctx context.Context, op *Op, b *binding) (*stream, error) {
	ctx, cancel := context.WithCancel(ctx)
	req, err := s.request(ctx, op, b)
	if err != nil {
		cancel()
		return nil, err
	}
	w := &stream{op: op, answer: &Answer{At: s.Now()}, close: cancel, ended: make(chan struct{})}
	resp, err := s.Client.Do(req)
	if err != nil {
		cancel()
		close(w.ended)
		w.answer.Broken = broken(err)
		return w, ctx.Err()
	}
	w.answer.Code, w.answer.Header = resp.StatusCode, resp.Header
	if resp.StatusCode != http.StatusOK {
		defer cancel()
		defer resp.Body.Close() //nolint:errcheck // read to the end
		close(w.ended)
		w.answer.Body, err = io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
		w.answer.Object = decode(resp.Header.Get("Content-Type"), w.answer.Body)
		return w, err
	}
	go w.read(resp)
	return w, nil
}

func (w *stream) read(resp *http.Response) {
	defer close(w.ended)
	defer resp.Body.Close() //nolint:errcheck // nothing more is wanted of it
	media, _, _ := mime.ParseMediaType(resp.Header.Get("Content-Type"))
	switch media {
	case runtime.ContentTypeProtobuf:
		w.readFrames(resp.Body)
		return
	case runtime.ContentTypeCBORSequence:
		w.readItems(resp.Body)
		return
	}
	dec := json.NewDecoder(resp.Body)
	dec.UseNumber()
	for {
		var ev any
		if dec.Decode(&ev) != nil {
			return
		}
		w.add(ev)
	}
}

func (w *stream) add(ev any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.events = append(w.events, ev)
}

func (w *stream) seen() []any {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.events[:len(w.events):len(w.events)]
}

func (w *stream) over() bool {
	select {
	case <-w.ended:
		return true
	default:
		return false
	}
}

// headers are those that are compared.
func (a *Answer) headers() map[string]string {
	out := map[string]string{}
	for _, k := range []string{
		"Content-Type", "Cache-Control", "Warning", "Retry-After", "Allow", "Location", "Vary",
		"X-Content-Type-Options", "Www-Authenticate", "Content-Encoding",
	} {
		if v := a.Header.Values(k); len(v) > 0 {
			out[k] = strings.Join(v, "\n")
		}
	}
	return out
}
