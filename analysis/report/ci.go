package report

import (
	"bufio"
	"fmt"
	"io"
	"net/url"
	"path/filepath"
	"strings"

	"github.com/opreplay/opreplay/analysis"
	"github.com/opreplay/opreplay/internal/junit"
)

// JUnit writes a test for each detector that looked; its failure is what it found.
func JUnit(w io.Writer, r *analysis.Result) error {
	suite := junit.Suite{Name: "opsim analyze " + Flat(r.Looked.Trace)}
	for _, name := range r.Looked.Detectors {
		c := junit.Case{Name: Flat(name), Class: "opsim.analyze"}
		var texts []string
		for i := range r.Findings {
			if f := &r.Findings[i]; f.Detector == name {
				texts = append(texts, fmt.Sprintf("%s %s (%s): %s. Cause (%s): %s.", f.ID, f.Severity, Flat(firstObject(f)), Flat(f.What), f.Certainty, Flat(f.Cause)))
			}
		}
		if len(texts) > 0 {
			c.Failure = &junit.Problem{Message: texts[0], Type: Flat(name), Text: strings.Join(texts, "\n")}
		}
		suite.Cases = append(suite.Cases, c)
	}
	return junit.Write(w, suite)
}

// GitHub writes the findings as workflow commands, which GitHub Actions shows beside the code.
// (docs.github.com, "Workflow commands for GitHub Actions": %, CR and LF are escaped, in properties : and , too.)
func GitHub(w io.Writer, r *analysis.Result) error {
	out := bufio.NewWriter(w)
	for i := range r.Findings {
		f := &r.Findings[i]
		place := ""
		if file, line := CodeLine(f); file != "" {
			place = fmt.Sprintf("file=%s,line=%d,", property(file), line)
		}
		_, _ = fmt.Fprintf(out, "::%s %stitle=%s::%s\n", f.Severity, place, property(f.ID+" "+f.Detector),
			message(fmt.Sprintf("%s. Cause (%s): %s.", f.What, f.Certainty, f.Cause)))
	}
	return out.Flush()
}

var (
	messageEscapes  = strings.NewReplacer("%", "%25", "\n", "%0A")
	propertyEscapes = strings.NewReplacer("%", "%25", "\n", "%0A", ":", "%3A", ",", "%2C")
)

func message(s string) string  { return messageEscapes.Replace(flatLines(s)) }
func property(s string) string { return propertyEscapes.Replace(flatLines(s)) }

// flatLines is Flat for each line of a text: a log, too, is read on terminals.
func flatLines(s string) string {
	lines := strings.Split(s, "\n")
	for i := range lines {
		lines[i] = Flat(lines[i])
	}
	return strings.Join(lines, "\n")
}

// uri is a path as a URI reference.
func uri(path string) string {
	u := url.URL{Path: filepath.ToSlash(path)}
	if strings.HasPrefix(u.Path, "/") {
		u.Scheme = "file"
	}
	return u.String()
}
