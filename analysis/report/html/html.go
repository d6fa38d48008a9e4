package html

import (
	"bufio"
	"context"
	"crypto/sha256"
	_ "embed" // the page's parts
	"encoding/base64"
	"encoding/json"
	"html/template"
	"io"

	"github.com/opreplay/opreplay/analysis"
	"github.com/opreplay/opreplay/analysis/report"
	"github.com/opreplay/opreplay/traces"
)

// Run is a trace and what was found in it.
type Run struct {
	Trace  *traces.Trace
	Result *analysis.Result
}

// Options of a page.
type Options struct {
	// Reference is the run without faults that each trace is shown beside; nil for none.
	Reference *traces.Trace
	// Live has the page look for a newer form of itself where it was fetched from.
	Live bool
	// Progress, if set, is called now and then with how many records of a trace were read.
	Progress func(t *traces.Trace, records int64)
}

//go:embed assets/page.html
var pageText string

//go:embed assets/page.css
var pageCSS string

//go:embed assets/page.js
var pageJS string

//go:embed assets/echarts.min.js
var echartsJS string

var pageTemplate = template.Must(template.New("page").Funcs(template.FuncMap{
	"value":     func(s analysis.Statistic) string { return report.Value(s.Value, s.Unit) },
	"interval":  report.Interval,
	"thousands": report.Thousands,
	"seconds":   report.Seconds,
	"share":     func(p float64) string { return report.Value(p, "share") + " sure" },
	"chance":    chance,
	"value1":    report.Value,
	"count":     report.Plural[int],
	"count64":   report.Plural[int64],
}).Parse(pageText))

// Write writes the page of traces and of what was found in them.
func Write(ctx context.Context, w io.Writer, o Options, runs ...Run) error {
	each := gathering{most: MaxEvents / max(1, len(runs)), compared: o.Reference != nil}
	look := func(t *traces.Trace, r *analysis.Result) (*gathered, error) {
		if o.Progress != nil {
			each.progress = func(records int64) { o.Progress(t, records) }
		}
		return gather(ctx, t, r, each)
	}
	d, p := &data{Kinds: kinds}, &page{}
	var ref *gathered
	if o.Reference != nil {
		each.most = MaxEvents / (len(runs) + 1)
		var err error
		if ref, err = look(o.Reference, &analysis.Result{}); err != nil {
			return err
		}
		t := ref.timeline()
		d.Reference = &t
	}
	names := titles(runs)
	for i, r := range runs {
		g, err := look(r.Trace, r.Result)
		if err != nil {
			return err
		}
		x := g.data()
		if ref != nil {
			x.Beside = g.beside(ref)
		}
		p.add(names[i], g, r.Result, x, len(runs) == 1)
		d.Runs = append(d.Runs, x)
	}
	if len(runs) == 1 {
		p.Title = names[0]
	} else {
		p.Title = report.Plural(len(runs), "trace", "traces")
		p.rank()
	}
	return compose(w, p, d, o.Live)
}

// compose writes a page with its scripts and their data.
func compose(w io.Writer, p *page, d any, live bool) error {
	text, err := json.Marshal(d) // which escapes <, > and &
	if err != nil {
		return err
	}
	p.Live, p.CSS = live, template.CSS(pageCSS) //nolint:gosec // ours
	p.Policy = "default-src 'none'; img-src data:; style-src 'unsafe-inline'; script-src " + hashOf(echartsJS) + " " + hashOf(pageJS)
	if live {
		p.Policy += "; connect-src 'self'"
	}
	out := bufio.NewWriter(w)
	if err := pageTemplate.Execute(out, p); err != nil {
		return err
	}
	for _, part := range []string{
		`<script type="application/json" id="data">`, string(text), "</script>\n",
		"<script>", echartsJS, "</script>\n", "<script>", pageJS, "</script>\n</body>\n</html>\n",
	} {
		if _, err := out.WriteString(part); err != nil {
			return err
		}
	}
	return out.Flush()
}

// hashOf names a script in a content security policy (CSP level 3, section 2.3.1).
func hashOf(script string) string {
	sum := sha256.Sum256([]byte(script))
	return "'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "'"
}
