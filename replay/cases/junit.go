package cases

import (
	"encoding/xml"
	"fmt"
	"io"
	"strings"
	"time"
)

// The JUnit form, as CI systems read it (https://github.com/testmoapp/junitxml): one suite, a test for each case.
type (
	junitSuites struct {
		XMLName  xml.Name   `xml:"testsuites"`
		Name     string     `xml:"name,attr"`
		Tests    int        `xml:"tests,attr"`
		Failures int        `xml:"failures,attr"`
		Errors   int        `xml:"errors,attr"`
		Time     string     `xml:"time,attr"`
		Suite    junitSuite `xml:"testsuite"`
	}
	junitSuite struct {
		Name     string      `xml:"name,attr"`
		Tests    int         `xml:"tests,attr"`
		Failures int         `xml:"failures,attr"`
		Errors   int         `xml:"errors,attr"`
		Time     string      `xml:"time,attr"`
		Cases    []junitCase `xml:"testcase"`
	}
	junitCase struct {
		Name      string        `xml:"name,attr"`
		Classname string        `xml:"classname,attr"`
		File      string        `xml:"file,attr"`
		Time      string        `xml:"time,attr"`
		Failure   *junitProblem `xml:"failure"`
		Error     *junitProblem `xml:"error"`
		Out       string        `xml:"system-out,omitempty"`
	}
	junitProblem struct {
		Message string `xml:"message,attr"`
		Type    string `xml:"type,attr"`
		Text    string `xml:",chardata"`
	}
)

const junitName = "opsim test"

// JUnit writes the report as JUnit XML.
func (r *Report) JUnit(w io.Writer) error {
	suite := junitSuite{Name: junitName, Tests: len(r.Cases), Failures: r.Count(Failed), Errors: r.Count(Error), Time: seconds(r.Took)}
	for _, c := range r.Cases {
		suite.Cases = append(suite.Cases, c.junit())
	}
	if _, err := io.WriteString(w, xml.Header); err != nil {
		return err
	}
	e := xml.NewEncoder(w)
	e.Indent("", "  ")
	if err := e.Encode(junitSuites{
		Name: junitName, Tests: suite.Tests, Failures: suite.Failures, Errors: suite.Errors, Time: suite.Time, Suite: suite,
	}); err != nil {
		return err
	}
	_, err := io.WriteString(w, "\n")
	return err
}

func (r *Result) junit() junitCase {
	c := junitCase{Name: r.Name, Classname: "opsim", File: r.Dir, Time: seconds(r.Took)}
	var out strings.Builder
	for _, a := range r.Alarms {
		_, _ = fmt.Fprintf(&out, "%s: %s\n", FindingOf(&a), a.What) // to memory
	}
	c.Out = out.String()
	if r.Status == OK {
		return c
	}
	p := &junitProblem{Text: strings.Join(r.Problems, "\n"), Type: string(r.Status)}
	if len(r.Problems) > 0 {
		p.Message = r.Problems[0]
	}
	if r.Status == Error {
		c.Error = p
	} else {
		c.Failure = p
	}
	return c
}

func seconds(d time.Duration) string { return fmt.Sprintf("%.3f", d.Seconds()) }
