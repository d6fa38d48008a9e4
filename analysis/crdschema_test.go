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
		{`{"type":"integer","multipleOf":3}`, `9`, ""},
		{`{"type":"integer","multipleOf":3}`, `10`, "multiple of 3"},
		{`{"type":"number","multipleOf":0.1}`, `0.3`, ""},
		{`{"type":"integer","enum":[1,2]}`, `1.0`, "must be of type integer"},
		{`{"type":"number","enum":[1,2]}`, `1.0`, ""},
		// What is not checked may forbid it, and what must not be is allowed then.
		{`{"type":"string","not":{"format":"of-our-own"}}`, `"anything"`, ""},
		{`{"type":"string","not":{"pattern":"(?<=a)b"}}`, `"ab"`, ""},
		{`{"type":"string","not":{"anyOf":[{"format":"of-our-own"},{"enum":["b"]}]}}`, `"a"`, ""},
		{`{"type":"string","not":{"anyOf":[{"format":"of-our-own"},{"enum":["b"]}]}}`, `"b"`, "must not"},
		{`{"type":"string","not":{"not":{"format":"of-our-own"}}}`, `"a"`, ""},
		{`{"type":"integer","not":{"multipleOf":2}}`, `3`, ""},
		{`{"type":"integer","not":{"multipleOf":2}}`, `4`, "must not"},
		{`{"type":"array","not":{"enum":[["a"]]},"items":{"type":"string"}}`, `["b"]`, ""},
		{`{"type":"string","oneOf":[{"format":"of-our-own"},{"enum":["a","b"]}]}`, `"a"`, ""},
		{`{"type":"string","oneOf":[{"format":"of-our-own"},{"minLength":1},{"enum":["a"]}]}`, `"a"`, "is 2"},
		{`{"type":"string","oneOf":[{"pattern":"^a"},{"enum":["b"]}]}`, `"c"`, "is 0"},
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
