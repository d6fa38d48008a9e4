package apicall

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/endpoints/request"

	"github.com/opreplay/opreplay/traces"
)

// form is how a call's answer is treated.
type form int

const (
	whole  form = iota // one answer: held until its row is appended, and read
	watch              // frames that are read as they pass
	opaque             // a byte stream (exec, logs): passed on as it comes, not read
	bare               // no resource (discovery, health): held, not read
)

// call is one API call under way.
type call struct {
	tap     *Tap
	request *http.Request // as passed on
	info    *request.RequestInfo
	form    form
	row     *traces.Request
	start   time.Time
	stream  string // of the watch rows that this call yields
}

// connecting are the subresources that hand the connection over (the registries' Connecter storages).
var connecting = map[string]bool{
	"pods/exec": true, "pods/attach": true, "pods/portforward": true,
	"pods/proxy": true, "services/proxy": true, "nodes/proxy": true,
}

// begin reads what the request says and prepares it for passing on.
func (t *Tap) begin(r *http.Request) *call {
	now := t.o.Now()
	c := &call{tap: t, start: now}
	row := &traces.Request{
		StartSeq:  t.out.Seq(),
		Start:     now.UnixNano(),
		Process:   t.o.Process(r),
		User:      t.o.User(r),
		UserAgent: r.UserAgent(),
		Query:     r.URL.RawQuery,
		Attempt:   t.tries.number(r, now),
	}
	c.row = row
	info, err := t.info.NewRequestInfo(r)
	if err != nil { // a malformed special path: the server will refuse it
		info = &request.RequestInfo{Path: r.URL.Path, Verb: strings.ToLower(r.Method)}
	}
	c.info = info
	row.Verb = info.Verb
	if info.IsResourceRequest {
		c.target()
	} else {
		row.Path = r.URL.Path
		c.form = bare
	}
	c.stream = fmt.Sprintf("%s/%s/%d", row.Process, row.Resource, t.streams.Add(1))
	if row.Verb == "list" || row.Verb == "watch" {
		row.Stream = c.stream
	}
	row.FieldManager = fieldManager(row.Verb, r)

	c.request = r.Clone(r.Context())
	if !isUpgrade(r) {
		// Answers are to come plain. A proxy's own transport may still ask for gzip and undo it.
		c.request.Header.Del("Accept-Encoding")
	}
	if c.form == whole || c.form == watch {
		c.readBody()
	}
	return c
}

// target fills the row's identity and chooses the form.
func (c *call) target() {
	i, row := c.info, c.row
	row.Group, row.Version, row.Resource = i.APIGroup, i.APIVersion, i.Resource
	row.Subresource, row.Namespace, row.Name = i.Subresource, i.Namespace, i.Name
	if i.APIGroup == "" && i.Resource == "namespaces" {
		row.Namespace = "" // the URL of a Namespace makes it look as if it lay in itself
	}
	switch {
	case i.Verb == "watch":
		c.form = watch
	case i.Verb == "proxy" || (i.APIGroup == "" && connecting[i.Resource+"/"+i.Subresource]):
		c.form, row.Verb = opaque, "connect"
	case i.APIGroup == "" && i.Resource == "pods" && i.Subresource == "log":
		c.form = opaque
	}
}

func isUpgrade(r *http.Request) bool {
	for _, v := range r.Header.Values("Connection") {
		for _, token := range strings.Split(v, ",") {
			if strings.EqualFold(strings.TrimSpace(token), "upgrade") {
				return true
			}
		}
	}
	return false
}

// readBody takes the request's body for the row and puts it back for passing on. What is over the limit
// is passed on without being held.
func (c *call) readBody() {
	r := c.request
	if r.Body == nil || r.Body == http.NoBody {
		return
	}
	limit := c.tap.o.Limit
	body, err := io.ReadAll(io.LimitReader(r.Body, int64(limit)+1))
	rest := r.Body
	r.Body = struct {
		io.Reader
		io.Closer
	}{io.MultiReader(bytes.NewReader(body), errorReader{err}, rest), rest}
	if err == nil && len(body) <= limit {
		r.GetBody = func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(body)), nil }
	}
	c.row.ContentType = r.Header.Get("Content-Type")
	switch {
	case err != nil:
		c.lose("a request body that ended early")
		return
	case len(body) > limit:
		c.lose(errTooLarge.Error())
		return
	case len(bytes.TrimSpace(body)) == 0:
		return
	}
	media := mediaType(c.row.ContentType)
	if text, ok := c.read("request", media, r.Header.Get("Content-Encoding"), body); ok {
		c.row.RequestBody = string(text)
	}
}

// errorReader fails as an earlier read did; without an error it is empty.
type errorReader struct{ err error }

func (e errorReader) Read([]byte) (int, error) {
	if e.err != nil {
		return 0, e.err
	}
	return 0, io.EOF
}

// read decodes and redacts a body of a request or an answer. When that fails nothing of it is recorded,
// the loss is noted and ok is false.
func (c *call) read(what, media, encoding string, body []byte) (text []byte, ok bool) {
	var err error
	switch encoding {
	case "", "identity":
	case "gzip":
		body, err = gunzip(body, c.tap.o.Limit)
	default:
		err = errors.New("a body in content encoding " + encoding)
	}
	if err == nil {
		text, err = toJSON(media, body)
	}
	if err == nil {
		text, err = c.redact(media, text)
	}
	if err != nil {
		c.lose(what + ": " + err.Error())
		return nil, false
	}
	return text, true
}

func (c *call) redact(media string, text []byte) ([]byte, error) {
	if c.tap.o.Redact == nil || len(text) == 0 {
		return text, nil
	}
	return c.tap.o.Redact.Redact(Subject{
		Group: c.row.Group, Resource: c.row.Resource, Subresource: c.row.Subresource,
		JSONPatch: media == mediaJSONPatch,
	}, text)
}

func (c *call) lose(reason string) { c.tap.lose(c.source(), reason, 1) }

// source names the call's kind for the list of losses.
func (c *call) source() string {
	if c.row.Resource == "" {
		return "requests/" + c.row.Process
	}
	return "requests/" + c.row.Process + "/" + c.gvr().GroupResource().String()
}

func (c *call) gvr() schema.GroupVersionResource {
	return schema.GroupVersionResource{Group: c.row.Group, Version: c.row.Version, Resource: c.row.Resource}
}

// event appends a watch row of this call's stream.
func (c *call) event(t traces.EventType, object []byte) {
	e, err := Event(c.gvr(), t, object)
	if err == nil && e.Name == "" && bytes.HasPrefix(object, tableStart) {
		err = c.table(t, object)
		e = nil
	}
	if err != nil {
		c.lose("a watch event or list item: " + err.Error())
		return
	}
	if e == nil {
		return
	}
	e.TS = c.tap.o.Now().UnixNano()
	e.Stream, e.Process = c.stream, c.row.Process
	c.tap.append(e)
}

// tableStart begins a Table as the API server writes it.
var tableStart = []byte(`{"kind":"Table","apiVersion":"meta.k8s.io/`)

// table appends the rows of an event of a watch that its client asked for as Tables: one of one row.
func (c *call) table(t traces.EventType, object []byte) error {
	l, err := ParseList(object)
	if err != nil {
		return err
	}
	for _, item := range l.Items {
		c.event(t, item)
	}
	return nil
}

// end appends the call's row.
func (c *call) end(code int, header http.Header) {
	now := c.tap.o.Now()
	c.row.TS = now.UnixNano()
	c.row.Code = int32(code)
	c.row.AuditID = header.Get("Audit-Id")
	c.tap.tries.answered(c.request, c.row.Attempt, code, header.Get("Retry-After"), now)
	if c.row.Name == "" && c.row.Verb == "create" && c.row.RequestBody != "" {
		if m, err := ParseMeta([]byte(c.row.RequestBody)); err == nil {
			c.row.Name = m.Name
		}
	}
	c.tap.append(c.row)
}

// answered fills the row from the answer, and appends the rows of a list's items.
func (c *call) answered(code int, body []byte) {
	m, err := ParseMeta(body)
	if err != nil {
		c.lose("an answer that is " + err.Error())
		return
	}
	if c.row.Verb == "list" && code == http.StatusOK {
		l, ok, err := parseList(body)
		switch {
		case err != nil:
			c.lose("a list that is " + err.Error())
			return
		case ok:
			for _, item := range l.Items {
				c.event(traces.Sync, item)
			}
			body = l.Envelope
		}
		c.row.ResourceVersion = number(m.ResourceVersion)
		c.row.ResponseBody = string(body)
		return
	}
	c.row.ResponseBody = string(body)
	c.row.ResponseHash = traces.HashObject(c.row.ResponseBody)
	if m.Kind == "Status" {
		c.row.UID = m.StatusUID
		if code >= 400 {
			c.row.Reason = m.Reason
		}
		return
	}
	m.identify(&c.row.Identity)
}
