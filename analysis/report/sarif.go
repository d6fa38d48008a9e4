package report

import (
	"cmp"
	"encoding/json"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/opreplay/opreplay/analysis"
)

// The part of SARIF 2.1.0 (OASIS standard, 2020) that findings need.
type (
	sarifLog struct {
		Schema  string     `json:"$schema"`
		Version string     `json:"version"`
		Runs    []sarifRun `json:"runs"`
	}
	sarifRun struct {
		Tool struct {
			Driver sarifDriver `json:"driver"`
		} `json:"tool"`
		Results []sarifResult `json:"results"`
	}
	sarifDriver struct {
		Name  string      `json:"name"`
		Rules []sarifRule `json:"rules"`
	}
	sarifRule struct {
		ID string `json:"id"`
	}
	sarifText struct {
		Text string `json:"text"`
	}
	sarifResult struct {
		RuleID       string            `json:"ruleId"`
		RuleIndex    int               `json:"ruleIndex"`
		Level        string            `json:"level"`
		Message      sarifText         `json:"message"`
		Locations    []sarifLocation   `json:"locations"`
		Fingerprints map[string]string `json:"partialFingerprints"`
		Properties   map[string]string `json:"properties"`
	}
	sarifLocation struct {
		Physical sarifPhysical  `json:"physicalLocation"`
		Logical  []sarifLogical `json:"logicalLocations,omitempty"`
	}
	sarifPhysical struct {
		Artifact struct {
			URI string `json:"uri"`
		} `json:"artifactLocation"`
		Region *sarifRegion `json:"region,omitempty"`
	}
	sarifRegion struct {
		StartLine int `json:"startLine"`
	}
	sarifLogical struct {
		Name string `json:"fullyQualifiedName"`
		Kind string `json:"kind"`
	}
)

// SARIF writes the findings as SARIF 2.1.0, which code scanning services take: a finding points at the operator's
// line of code where a stack was recorded, else at the trace's manifest.
func SARIF(w io.Writer, r *analysis.Result) error {
	run := sarifRun{Results: []sarifResult{}}
	run.Tool.Driver = sarifDriver{Name: "opsim", Rules: []sarifRule{}}
	index := map[string]int{}
	for i := range r.Findings {
		f := &r.Findings[i]
		if _, known := index[f.Detector]; !known {
			index[f.Detector] = len(run.Tool.Driver.Rules)
			run.Tool.Driver.Rules = append(run.Tool.Driver.Rules, sarifRule{f.Detector})
		}
		run.Results = append(run.Results, sarifResult{
			RuleID: f.Detector, RuleIndex: index[f.Detector], Level: string(f.Severity),
			Message:      sarifText{noLinks(f.What + ". Cause (" + string(f.Certainty) + "): " + f.Cause + ".")},
			Locations:    []sarifLocation{sarifPlace(r, f)},
			Fingerprints: map[string]string{"opreplay/v1": f.Detector + " " + firstObject(f) + " " + f.Field},
			Properties:   map[string]string{"id": f.ID, "group": f.Group, "certainty": string(f.Certainty), "reproduce": f.Reproduce},
		})
	}
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	return e.Encode(sarifLog{"https://json.schemastore.org/sarif-2.1.0.json", "2.1.0", []sarifRun{run}})
}

// noLinks keeps a plain text message from having links, which SARIF writes [text](url) (3.11.6).
func noLinks(s string) string {
	return strings.NewReplacer(`\`, `\\`, "[", `\[`, "]", `\]`).Replace(Flat(s))
}

func sarifPlace(r *analysis.Result, f *analysis.Finding) sarifLocation {
	var l sarifLocation
	file, line := CodeLine(f)
	l.Physical.Artifact.URI = uri(cmp.Or(file, r.Looked.Trace+"/manifest.json"))
	if line > 0 {
		l.Physical.Region = &sarifRegion{line}
	}
	for _, o := range f.Objects {
		if x := (sarifLogical{o.String(), "object"}); !slices.Contains(l.Logical, x) { // a set, by the schema
			l.Logical = append(l.Logical, x)
		}
	}
	return l
}

// CodeLine is the file and the line of a finding's code, "" and 0 where there is none.
func CodeLine(f *analysis.Finding) (file string, line int) {
	place, _, _ := strings.Cut(f.Code, " ")
	i := strings.LastIndexByte(place, ':')
	if i < 0 {
		return "", 0
	}
	line, err := strconv.Atoi(place[i+1:])
	if err != nil || line <= 0 {
		return "", 0
	}
	return place[:i], line
}

func firstObject(f *analysis.Finding) string {
	if len(f.Objects) == 0 {
		return f.Process
	}
	return f.Objects[0].String()
}
