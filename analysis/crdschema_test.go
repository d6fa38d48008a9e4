package analysis

import (
	"fmt"
	"strings"
	"testing"
)

// What a schema says of values beside their types.
func TestFormsOfValues(t *testing.T) {
	for _, x := range []struct{ schema, value, rule string }{
		{`{"type":"string","format":"date-time"}`, `"2026-03-01T12:00:00Z"`, ""},
		{`{"type":"string","format":"date-time"}`, `"yesterday"`, "format date-time"},
		{`{"type":"string","format":"duration"}`, `"90s"`, ""},
		{`{"type":"string","format":"duration"}`, `"soon"`, "format duration"},
		{`{"type":"string","format":"ipv4"}`, `"10.0.0.256"`, "format ipv4"},
		{`{"type":"string","format":"cidr"}`, `"10.0.0.0/24"`, ""},
		{`{"type":"string","format":"uuid"}`, `"42"`, "format uuid"},
		{`{"type":"string","format":"of-our-own"}`, `"anything"`, ""},
		{`{"type":"integer","format":"int32"}`, `7`, ""},
		{`{"type":"integer","minimum":3,"exclusiveMinimum":true}`, `3`, "out of bounds"},
		{`{"type":"integer","minimum":3}`, `3`, ""},
		{`{"type":"array","uniqueItems":true,"items":{"type":"string"}}`, `["a","b","a"]`, "twice"},
		{`{"type":"object","maxProperties":1,"additionalProperties":{"type":"string"}}`, `{"a":"1","b":"2"}`, "2 fields"},
		{`{"type":"string","allOf":[{"minLength":2},{"pattern":"^a"}]}`, `"bc"`, "must match ^a"},
		{`{"type":"object","anyOf":[{"required":["a"]},{"required":["b"]}],"properties":{"a":{"type":"string"},"b":{"type":"string"}}}`, `{"b":"x"}`, ""},
		{`{"type":"object","anyOf":[{"required":["a"]},{"required":["b"]}],"properties":{"a":{"type":"string"},"b":{"type":"string"}}}`, `{}`, "anyOf"},
		{`{"type":"object","oneOf":[{"required":["a"]},{"required":["b"]}],"properties":{"a":{"type":"string"},"b":{"type":"string"}}}`, `{"a":"x","b":"x"}`, "is 2"},
		{`{"type":"string","not":{"enum":["none"]}}`, `"none"`, "must not"},
		{`{"x-kubernetes-int-or-string":true,"anyOf":[{"type":"integer"},{"type":"string"}]}`, `"50%"`, ""},
	} {
		crd, ok := readCRD(fmt.Sprintf(`{"spec":{"names":{"plural":"sites"},"versions":[{"name":"v1","schema":{"openAPIV3Schema":{"properties":{"spec":{"properties":{"x":%s}}}}}}]}}`, x.schema))
		if !ok {
			t.Fatal(x.schema)
		}
		got := crd.version("v1").Schema.OpenAPI.check(fmt.Sprintf(`{"spec":{"x":%s}}`, x.value))
		if x.rule == "" && len(got) > 0 || x.rule != "" && (len(got) != 1 || !strings.Contains(got[0].rule, x.rule) || got[0].path != "spec.x") {
			t.Errorf("%s of %s: %+v", x.value, x.schema, got)
		}
	}
}
