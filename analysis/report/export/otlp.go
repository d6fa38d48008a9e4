package export

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"

	collector "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	common "go.opentelemetry.io/proto/otlp/common/v1"
	resource "go.opentelemetry.io/proto/otlp/resource/v1"
	otlptrace "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	"github.com/opreplay/opreplay/traces"
)

// OTLP makes spans of a trace (OpenTelemetry protocol 1.10): each reconcile is one, its calls are its children, and it
// has a link to the call that made the version whose event queued it, where the trace knows. Calls outside of
// reconciles are spans by themselves. One resource a process, whose service.name is the process. Ids follow from the
// trace alone: the same trace gives the same spans. Watches, which last as long as their client, are left out.
func OTLP(ctx context.Context, t *traces.Trace) (*collector.ExportTraceServiceRequest, Counts, error) {
	b := &spans{salt: t.SHA256(), by: map[string]*otlptrace.ScopeSpans{}, reconciles: map[int64]*otlptrace.Span{}, writers: map[objectVersion]*otlptrace.Span{}, versions: map[int64]objectVersion{}}
	var n Counts
	for record, err := range t.Records(ctx, traces.Range{
		Tables: []traces.Table{traces.TableReconciles, traces.TableRequests, traces.TableWatch},
		Columns: []string{
			"group", "version", "resource", "namespace", "name", "uid", "resource_version", "process", "start", "verb", "subresource", "path", "code", "reason", "field_manager",
			"user_agent", "reconcile_id", "controller", "trigger", "outcome", "error", "attempt",
		},
	}) {
		if err != nil {
			return nil, n, err
		}
		switch x := record.(type) {
		case *traces.Reconcile:
			n.Reconciles++
			b.reconcile(x)
		case *traces.Request:
			if x.Verb != "watch" {
				n.Requests++
				b.request(x)
			}
		case *traces.WatchEvent:
			b.versions[x.Seq] = objectVersion{x.UID, x.ResourceVersion}
		}
	}
	b.link()
	return &collector.ExportTraceServiceRequest{ResourceSpans: b.all}, n, nil
}

type spans struct {
	salt       string
	all        []*otlptrace.ResourceSpans
	by         map[string]*otlptrace.ScopeSpans
	reconciles map[int64]*otlptrace.Span
	calls      []call
	queued     []queued
	writers    map[objectVersion]*otlptrace.Span
	versions   map[int64]objectVersion
}

// call and queued wait for what may stand later in the trace: a reconcile's row comes at its end.
type call struct {
	span      *otlptrace.Span
	reconcile int64
}

type queued struct {
	span    *otlptrace.Span
	trigger int64
}

// id is n bytes that follow from the trace and a row.
func (b *spans) id(seq int64, n int) []byte {
	var row [8]byte
	binary.BigEndian.PutUint64(row[:], uint64(seq)) //nolint:gosec // a seq is positive
	sum := sha256.Sum256(append([]byte(b.salt), row[:]...))
	return sum[:n]
}

func (b *spans) add(process string, seq int64, s *otlptrace.Span) *otlptrace.Span {
	scope := b.by[process]
	if scope == nil {
		scope = &otlptrace.ScopeSpans{Scope: &common.InstrumentationScope{Name: "opreplay"}}
		b.by[process] = scope
		b.all = append(b.all, &otlptrace.ResourceSpans{
			Resource: &resource.Resource{Attributes: []*common.KeyValue{text("service.name", process)}}, ScopeSpans: []*otlptrace.ScopeSpans{scope},
		})
	}
	s.TraceId, s.SpanId = b.id(seq, 16), b.id(-seq, 8)
	scope.Spans = append(scope.Spans, s)
	return s
}

func (b *spans) reconcile(x *traces.Reconcile) {
	s := &otlptrace.Span{
		Name: "reconcile " + x.Controller, Kind: otlptrace.Span_SPAN_KIND_CONSUMER, StartTimeUnixNano: nanos(x.Start), EndTimeUnixNano: nanos(x.TS),
		Attributes: []*common.KeyValue{
			text("k8s.controller", x.Controller), text("k8s.key", key(x.Namespace, x.Name)), text("opreplay.outcome", x.Outcome), text("opreplay.seq", strconv.FormatInt(x.Seq, 10)),
		},
	}
	if x.Outcome == "error" || x.Outcome == "panic" {
		s.Status = &otlptrace.Status{Code: otlptrace.Status_STATUS_CODE_ERROR, Message: x.Error}
	}
	b.reconciles[x.Seq] = b.add(cmp.Or(x.Process, "operator"), x.Seq, s)
	b.queued = append(b.queued, queued{s, x.Trigger})
}

func (b *spans) request(x *traces.Request) {
	s := &otlptrace.Span{
		Name: strings.TrimSpace(x.Verb + " " + cmp.Or(x.Resource, x.Path)), Kind: otlptrace.Span_SPAN_KIND_CLIENT, StartTimeUnixNano: nanos(x.Start), EndTimeUnixNano: nanos(x.TS),
		Attributes: []*common.KeyValue{
			text("k8s.group", x.Group), text("k8s.resource", x.Resource), text("k8s.subresource", x.Subresource), text("k8s.key", key(x.Namespace, x.Name)), text("k8s.fieldManager", x.FieldManager),
			{Key: "http.response.status_code", Value: &common.AnyValue{Value: &common.AnyValue_IntValue{IntValue: int64(x.Code)}}},
			text("user_agent.original", x.UserAgent), text("opreplay.seq", strconv.FormatInt(x.Seq, 10)),
		},
	}
	if x.Code == 0 || x.Code >= http.StatusBadRequest {
		s.Status = &otlptrace.Status{Code: otlptrace.Status_STATUS_CODE_ERROR, Message: x.Reason}
	}
	b.add(cmp.Or(x.Process, "outsiders"), x.Seq, s)
	b.calls = append(b.calls, call{s, x.ReconcileID})
	if x.UID != "" && x.ResourceVersion != 0 && x.Code < http.StatusMultipleChoices && x.Verb != "get" && x.Verb != "list" {
		b.writers[objectVersion{x.UID, x.ResourceVersion}] = s
	}
}

// link makes calls children of their reconciles, and tells reconciles of the writes that queued them.
func (b *spans) link() {
	for _, c := range b.calls {
		if parent := b.reconciles[c.reconcile]; parent != nil && c.reconcile != 0 {
			c.span.TraceId, c.span.ParentSpanId = parent.TraceId, parent.SpanId
		}
	}
	for _, q := range b.queued {
		if w := b.writers[b.versions[q.trigger]]; w != nil && q.trigger != 0 {
			q.span.Links = append(q.span.Links, &otlptrace.Span_Link{TraceId: w.TraceId, SpanId: w.SpanId})
		}
	}
}

func text(name, value string) *common.KeyValue {
	return &common.KeyValue{Key: name, Value: &common.AnyValue{Value: &common.AnyValue_StringValue{StringValue: value}}}
}

func nanos(ns int64) uint64 { return uint64(max(0, ns)) }

// OTLPJSON writes spans in OTLP's JSON form, one line, as the collector's file receiver reads it. Its ids are
// hexadecimal, where protobuf's own JSON form would have base64 (OTLP specification, "JSON Protobuf Encoding").
func OTLPJSON(w io.Writer, r *collector.ExportTraceServiceRequest) error {
	message, err := protojson.MarshalOptions{UseEnumNumbers: true}.Marshal(r)
	if err != nil {
		return err
	}
	var tree any
	if err := json.Unmarshal(message, &tree); err != nil {
		return err
	}
	if err := hexIDs(tree); err != nil {
		return err
	}
	return json.NewEncoder(w).Encode(tree)
}

func hexIDs(node any) error {
	switch x := node.(type) {
	case []any:
		for _, item := range x {
			if err := hexIDs(item); err != nil {
				return err
			}
		}
	case map[string]any:
		for name, field := range x {
			s, isText := field.(string)
			switch {
			case isText && (name == "traceId" || name == "spanId" || name == "parentSpanId"):
				id, err := base64.StdEncoding.DecodeString(s)
				if err != nil {
					return err
				}
				x[name] = hex.EncodeToString(id)
			case !isText:
				if err := hexIDs(field); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// SendOTLP sends spans to a collector's HTTP endpoint, such as http://127.0.0.1:4318 (OTLP/HTTP: POST /v1/traces,
// protobuf). What the collector refuses, in part or whole, is an error.
func SendOTLP(ctx context.Context, endpoint string, r *collector.ExportTraceServiceRequest) error {
	body, err := proto.Marshal(r)
	if err != nil {
		return err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, strings.TrimSuffix(endpoint, "/")+"/v1/traces", bytes.NewReader(body))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/x-protobuf")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close() //nolint:errcheck // only read
	answer, err := io.ReadAll(io.LimitReader(resp.Body, 1<<20))
	if err != nil {
		return err
	}
	if resp.StatusCode/100 != 2 {
		return fmt.Errorf("%s answered %s", endpoint, resp.Status)
	}
	var got collector.ExportTraceServiceResponse
	if err := proto.Unmarshal(answer, &got); err == nil && got.GetPartialSuccess().GetRejectedSpans() > 0 {
		return fmt.Errorf("%s refused %d spans: %s", endpoint, got.PartialSuccess.RejectedSpans, got.PartialSuccess.ErrorMessage)
	}
	return nil
}
