package junit

import (
	"encoding/xml"
	"fmt"
	"io"
	"time"
)

// Suite is a set of tests.
type Suite struct {
	Name  string
	Took  time.Duration
	Cases []Case
}

// Case is one test. It passed when it has neither a Failure nor an Error.
type Case struct {
	Name, Class, File string
	Took              time.Duration
	// Failure is what is not as it should be, Error why the test could not be made.
	Failure, Error *Problem
	// Out is what the test said beside its verdict.
	Out string
}

// Problem is why a test did not pass.
type Problem struct{ Message, Type, Text string }

type (
	suites struct {
		XMLName  xml.Name `xml:"testsuites"`
		Name     string   `xml:"name,attr"`
		Tests    int      `xml:"tests,attr"`
		Failures int      `xml:"failures,attr"`
		Errors   int      `xml:"errors,attr"`
		Time     string   `xml:"time,attr"`
		Suite    suite    `xml:"testsuite"`
	}
	suite struct {
		Name     string     `xml:"name,attr"`
		Tests    int        `xml:"tests,attr"`
		Failures int        `xml:"failures,attr"`
		Errors   int        `xml:"errors,attr"`
		Time     string     `xml:"time,attr"`
		Cases    []testCase `xml:"testcase"`
	}
	testCase struct {
		Name      string   `xml:"name,attr"`
		Classname string   `xml:"classname,attr"`
		File      string   `xml:"file,attr,omitempty"`
		Time      string   `xml:"time,attr"`
		Failure   *problem `xml:"failure"`
		Error     *problem `xml:"error"`
		Out       string   `xml:"system-out,omitempty"`
	}
	problem struct {
		Message string `xml:"message,attr"`
		Type    string `xml:"type,attr"`
		Text    string `xml:",chardata"`
	}
)

// Write writes a suite as a document of its own.
func Write(w io.Writer, s Suite) error {
	x := suite{Name: s.Name, Tests: len(s.Cases), Time: seconds(s.Took)}
	for _, c := range s.Cases {
		if c.Failure != nil {
			x.Failures++
		}
		if c.Error != nil {
			x.Errors++
		}
		x.Cases = append(x.Cases, testCase{
			Name: c.Name, Classname: c.Class, File: c.File, Time: seconds(c.Took),
			Failure: (*problem)(c.Failure), Error: (*problem)(c.Error), Out: c.Out,
		})
	}
	if _, err := io.WriteString(w, xml.Header); err != nil {
		return err
	}
	e := xml.NewEncoder(w)
	e.Indent("", "  ")
	if err := e.Encode(suites{Name: s.Name, Tests: x.Tests, Failures: x.Failures, Errors: x.Errors, Time: x.Time, Suite: x}); err != nil {
		return err
	}
	_, err := io.WriteString(w, "\n")
	return err
}

func seconds(d time.Duration) string { return fmt.Sprintf("%.3f", d.Seconds()) }
