package recorder

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"math"
	"mime"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"
	"unicode"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"

	"github.com/opreplay/opreplay/traces"
)

// What an endpoint may answer at most. Operators have some hundreds of series; a scrape beyond is refused as a whole, for
// half of one would look like series that ended.
const (
	maxScrape  = 16 << 20 // bytes, unpacked
	maxSamples = 100_000
	maxWhy     = 200 // bytes of an error that an answer caused, which may quote it
)

// scrapeClient asks an endpoint itself, through no proxy, and goes nowhere else.
func scrapeClient(insecure bool) *http.Client {
	return &http.Client{
		Transport: &http.Transport{
			TLSClientConfig:        &tls.Config{InsecureSkipVerify: insecure}, //nolint:gosec // as the user said
			MaxResponseHeaderBytes: 64 << 10,
		},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// sample is one value of one series.
type sample struct {
	key, name, kind string // kind is the type of its family
	labels          []traces.Label
	value           float64
}

// series is what is known of one.
type series struct {
	sample
	seen int64 // at which scrape
}

// ask is one answer of the endpoint, whole.
func (t *target) ask(ctx context.Context, timeout time.Duration) ([]sample, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, timeout, fmt.Errorf("no answer within %s", timeout))
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, t.url.String(), nil)
	if err != nil {
		return nil, err
	}
	r.Header.Set("Accept", string(expfmt.NewFormat(expfmt.TypeTextPlain)))
	r.Header.Set("User-Agent", "oprec")
	if t.tokenFile != "" {
		token, err := readToken(t.tokenFile)
		if err != nil {
			return nil, fmt.Errorf("the token file: %w", err)
		}
		r.Header.Set("Authorization", "Bearer "+token)
	}
	answer, err := t.client.Do(r)
	if err != nil {
		return nil, whyNot(ctx, err)
	}
	defer func() { _ = answer.Body.Close() }()
	if answer.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("it answers %d %s", answer.StatusCode, http.StatusText(answer.StatusCode))
	}
	if kind := answer.Header.Get("Content-Type"); !isText(kind) {
		return nil, fmt.Errorf("it answers with %s, and not with Prometheus' text form", printable(kind))
	}
	body, err := io.ReadAll(io.LimitReader(answer.Body, maxScrape+1))
	if err != nil {
		return nil, whyNot(ctx, err)
	}
	if len(body) > maxScrape {
		return nil, fmt.Errorf("it answers with more than %d MiB", maxScrape>>20)
	}
	return t.parse(body)
}

// whyNot is what broke a call off, without the URL.
func whyNot(ctx context.Context, err error) error {
	if cause := context.Cause(ctx); cause != nil {
		return cause
	}
	return urlless(err)
}

// urlless is an error of a URL without it.
func urlless(err error) error {
	if e, ok := errors.AsType[*url.Error](err); ok {
		return e.Err
	}
	return err
}

// isText is whether a content type is the text form; an endpoint that doesn't say has no other.
func isText(kind string) bool {
	media, _, err := mime.ParseMediaType(kind)
	return kind == "" || err == nil && media == "text/plain"
}

// printable is the beginning of a text from elsewhere, in a form that is safe on a terminal.
func printable(text string) string {
	if len(text) > maxWhy {
		text = text[:maxWhy] + "…"
	}
	return strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return '?'
		}
		return r
	}, text)
}

// parse is the samples of an answer, ordered by family, with the labels that Prometheus gives them.
//
// The library's parser (expfmt of prometheus/common 0.70) panics on a line that begins with {} and has no name, which
// must not end a recording.
func (t *target) parse(body []byte) (all []sample, err error) {
	defer func() {
		if problem := recover(); problem != nil {
			all, err = nil, fmt.Errorf("it answers with what ends the parser: %v", problem)
		}
	}()
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(bytes.NewReader(body))
	if err != nil {
		return nil, errors.New(printable(err.Error()))
	}
	names := make([]string, 0, len(families))
	for name := range families {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		f := families[name]
		vector, err := expfmt.ExtractSamples(&expfmt.DecodeOptions{}, f)
		if err != nil {
			return nil, errors.New(printable(err.Error()))
		}
		if len(all)+len(vector) > maxSamples {
			return nil, fmt.Errorf("it answers with more than %d samples", maxSamples)
		}
		for _, s := range vector {
			all = append(all, t.sample(kindOf(f), s))
		}
	}
	return all, nil
}

// kindOf is the type of a family, as it is in the trace.
func kindOf(f *dto.MetricFamily) string {
	if f.GetType() == dto.MetricType_UNTYPED {
		return ""
	}
	return strings.ToLower(f.GetType().String())
}

// sample is one as Prometheus stores it: it labels it with its endpoint, and an own label of that name gets another one
// (honor_labels is false by default).
func (t *target) sample(kind string, s *model.Sample) sample {
	const instance = "instance"
	one := sample{kind: kind, value: float64(s.Value), labels: []traces.Label{{Name: instance, Value: t.instance}}}
	for name, value := range s.Metric {
		switch name {
		case model.MetricNameLabel:
			one.name = string(value)
		case instance:
			own := model.LabelName(model.ExportedLabelPrefix + instance)
			for _, taken := s.Metric[own]; taken; _, taken = s.Metric[own] {
				own = model.ExportedLabelPrefix + own
			}
			one.labels = append(one.labels, traces.Label{Name: string(own), Value: string(value)})
		default:
			one.labels = append(one.labels, traces.Label{Name: string(name), Value: string(value)})
		}
	}
	slices.SortFunc(one.labels, func(a, b traces.Label) int { return strings.Compare(a.Name, b.Name) })
	var key strings.Builder
	key.WriteString(one.name)
	for _, l := range one.labels {
		key.WriteByte(0xff) // which is in no UTF-8
		key.WriteString(l.Name)
		key.WriteByte(0xff)
		key.WriteString(l.Value)
	}
	one.key = key.String()
	return one
}

// write appends what has changed since the scrape before, and last of all that there was a scrape.
func (t *target) write(samples []sample) {
	ts := t.s.now().UnixNano()
	for i := range samples {
		x := &samples[i]
		known := t.series[x.key]
		switch {
		case known == nil:
			known = &series{sample: *x}
			t.series[x.key] = known
		case known.seen == t.scrapes: // twice in one answer: the first counts
			continue
		case math.Float64bits(known.value) == math.Float64bits(x.value):
			known.seen = t.scrapes
			continue
		}
		known.seen, known.value = t.scrapes, x.value
		if !t.append(known.row(t.process, ts)) {
			return
		}
	}
	var gone []string
	for key, x := range t.series {
		if x.seen != t.scrapes {
			gone = append(gone, key)
		}
	}
	slices.Sort(gone)
	for _, key := range gone {
		x := t.series[key]
		x.value = math.NaN()
		delete(t.series, key)
		if !t.append(x.row(t.process, ts)) {
			return
		}
	}
	t.append(t.up(ts, 1))
}

func (x *sample) row(process string, ts int64) *traces.Metric {
	return &traces.Metric{Head: traces.Head{TS: ts}, Process: process, Name: x.name, Type: x.kind, Labels: x.labels, Value: x.value}
}

// up is the row of the scrape itself: Prometheus' own sample of whether it was answered.
func (t *target) up(ts int64, value float64) *traces.Metric {
	return &traces.Metric{
		Head: traces.Head{TS: ts}, Process: t.process, Name: "up", Type: "gauge",
		Labels: []traces.Label{{Name: "instance", Value: t.instance}}, Value: value,
	}
}

// append is false when the trace takes no more.
func (t *target) append(row *traces.Metric) bool { return t.s.Append(row) == nil }
