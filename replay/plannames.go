package replay

import (
	"reflect"
	"strings"

	"github.com/opreplay/opreplay/internal/cli"
	"github.com/opreplay/opreplay/sim/fault"
	"github.com/opreplay/opreplay/traces"
)

// checkNames refuses a plan that calls a recorded resource by its singular: it would meet nothing.
func checkNames(p *fault.Plan, known []traces.Resource) error {
	plurals, singulars := map[string]bool{}, map[string]string{}
	for _, r := range known {
		plurals[r.Resource] = true
		for _, s := range singularsOf(r.Resource) {
			singulars[s] = r.Resource
		}
	}
	for _, f := range p.Faults {
		for _, name := range resourcesOf(f) {
			plural, group, _ := strings.Cut(name, ".")
			if meant := singulars[strings.ToLower(plural)]; !plurals[plural] && meant != "" {
				if group != "" {
					meant += "." + group
				}
				return cli.Usagef("plan: %s: no resource is called %q; did you mean %q?", f, name, meant)
			}
		}
	}
	return nil
}

// singularsOf are the words that an English plural may be of.
func singularsOf(plural string) []string {
	stem := strings.TrimSuffix(plural, "s")
	if stem == plural {
		return nil
	}
	all := []string{stem}
	if s, ok := strings.CutSuffix(stem, "ie"); ok {
		all = append(all, s+"y")
	}
	if s, ok := strings.CutSuffix(stem, "e"); ok {
		all = append(all, s)
	}
	return all
}

// resourcesOf are the resources that a fault names: in its selectors, and as what it watches or shows.
func resourcesOf(f fault.Fault) (names []string) {
	var look func(v reflect.Value)
	look = func(v reflect.Value) {
		for i := range v.NumField() {
			switch name, x := v.Type().Field(i).Name, v.Field(i); {
			case x.Kind() == reflect.Struct:
				look(x)
			case x.Kind() == reflect.String && (name == "Resource" || name == "Watch"):
				names = append(names, x.String())
			}
		}
	}
	look(reflect.ValueOf(f).Elem())
	return names
}
