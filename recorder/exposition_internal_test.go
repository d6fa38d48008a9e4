package recorder

import (
	"slices"
	"strings"
	"testing"

	"github.com/opreplay/opreplay/traces"
)

// Whatever an endpoint answers is samples with a name and labels in order, or an error that is safe to show.
func FuzzParse(f *testing.F) {
	f.Add("# HELP a b\n# TYPE a counter\na{b=\"c\",instance=\"d\"} 1 1700000000000\n")
	f.Add("# TYPE h histogram\nh_bucket{le=\"1\"} 2\nh_bucket{le=\"+Inf\"} 3\nh_sum 4\nh_count 3\nh_count{le=\"x\"} 1\n")
	f.Add("# TYPE s summary\ns{quantile=\"0.5\"} NaN\ns_sum 1\ns_count 0.5\n")
	f.Add("# TYPE g gaugehistogram\n{\"a.b\",c=\"\\xff\"} -Inf\n")
	f.Add("#TYPE A histogram\n{}") // panics in the library
	f.Fuzz(func(t *testing.T, text string) {
		target := &target{instance: "127.0.0.1:8080"}
		samples, err := target.parse([]byte(text))
		if err != nil && strings.ContainsFunc(err.Error(), func(r rune) bool { return r < ' ' }) {
			t.Errorf("%q", err)
		}
		for _, s := range samples {
			if s.name == "" || !slices.IsSortedFunc(s.labels, func(a, b traces.Label) int { return strings.Compare(a.Name, b.Name) }) {
				t.Errorf("%+v", s)
			}
		}
	})
}

// Own labels of an endpoint that Prometheus' take the place of get the names that it would give them, each another.
func TestOwnInstanceLabels(t *testing.T) {
	for range 20 { // the labels come in no order
		samples, err := (&target{instance: "127.0.0.1:8080"}).parse([]byte("a{instance=\"x\",exported_instance=\"y\"} 1\n"))
		if err != nil || len(samples) != 1 {
			t.Fatal(samples, err)
		}
		want := []traces.Label{{Name: "exported_exported_instance", Value: "x"}, {Name: "exported_instance", Value: "y"}, {Name: "instance", Value: "127.0.0.1:8080"}}
		if !slices.Equal(samples[0].labels, want) {
			t.Fatalf("%+v", samples[0].labels)
		}
	}
}
