package meta

import "testing"

func TestOwner(t *testing.T) {
	for body, want := range map[string]string{
		`{"metadata":{"ownerReferences":[{"uid":"a"},{"uid":"b","controller":true},{"uid":"c"}]}}`: "b",
		`{"metadata":{"ownerReferences":[{"uid":"a"},{"uid":"b","controller":false}]}}`:            "a",
		`{"metadata":{"ownerReferences":[]}}`:                                                      "",
		`{"metadata":{"ownerReferences":"x"}}`:                                                     "",
		`{"metadata":{}}`:                                                                          "",
		``:                                                                                         "",
	} {
		if got := Owner(body); got != want {
			t.Errorf("%s: %q, want %q", body, got, want)
		}
	}
}
