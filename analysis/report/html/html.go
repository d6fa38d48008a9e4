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

// Options of a page. The zero value is a page of one trace.
type Options struct {
	// Reference is the run without faults that the trace is shown beside; nil for none.
	Reference *traces.Trace
	// Live has the page look for a newer form of itself where it was fetched from.
	Live bool
	// Progress, if set, is called now and then with how many records were read.
	Progress func(records int64)
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
}).Parse(pageText))

// Write writes the page of a trace and of what was found in it.
func Write(ctx context.Context, w io.Writer, t *traces.Trace, r *analysis.Result, o Options) error {
	g, err := gather(ctx, t, r, o.Progress)
	if err != nil {
		return err
	}
	d := g.data()
	if o.Reference != nil {
		ref, err := gather(ctx, o.Reference, &analysis.Result{}, o.Progress)
		if err != nil {
			return err
		}
		d.beside(g, ref)
	}
	p := newPage(g, r, d)
	text, err := json.Marshal(d) // which escapes <, > and &
	if err != nil {
		return err
	}
	p.Live, p.CSS = o.Live, template.CSS(pageCSS) //nolint:gosec // ours
	p.Policy = "default-src 'none'; img-src data:; style-src 'unsafe-inline'; script-src " + hashOf(echartsJS) + " " + hashOf(pageJS)
	if o.Live {
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
