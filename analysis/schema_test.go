package analysis

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

var definitions = kind{"apiextensions.k8s.io", "v1", "customresourcedefinitions", "CustomResourceDefinition"}

// define writes the definition of Sites with the properties of their spec.
func define(c *cluster, versions ...m) {
	r := ref{definitions, "sites.web.example.com"}
	spec := m{"group": "web.example.com", "names": m{"plural": "sites", "kind": "Site"}, "versions": versions}
	if c.get(r) == nil {
		c.create("kubectl", r, m{"spec": spec})
		return
	}
	c.spec("installer", r, spec)
}

// revision is one version of a definition; required are fields of the spec.
func revision(name string, properties m, required ...any) m {
	return m{"name": name, "served": true, "storage": name == "v1", "schema": m{"openAPIV3Schema": m{
		"type": "object", "properties": m{"spec": m{"type": "object", "properties": properties, "required": required}},
	}}}
}

func TestStoredObjectsThatTheSchemaDoesNotAdmit(t *testing.T) {
	for name, x := range map[string]struct {
		spec       m
		properties m
		required   []any
		field, say string
	}{
		"required":    {m{"host": "x"}, m{"host": m{"type": "string"}, "class": m{"type": "string"}}, []any{"class"}, "spec.class", "is required"},
		"enum":        {m{"host": "x"}, m{"host": m{"type": "string", "enum": []any{"a", "b"}}}, nil, "spec.host", `must be one of "a", "b"`},
		"type":        {m{"host": "x"}, m{"host": m{"type": "integer"}}, nil, "spec.host", "must be of type integer"},
		"bounds":      {m{"size": 9}, m{"size": m{"type": "integer", "maximum": 5}}, nil, "spec.size", "is 9, out of bounds"},
		"pattern":     {m{"host": "X"}, m{"host": m{"type": "string", "pattern": "^[a-z]+$"}}, nil, "spec.host", "must match ^[a-z]+$"},
		"length":      {m{"host": "abcdef"}, m{"host": m{"type": "string", "maxLength": 3}}, nil, "spec.host", "has 6 characters"},
		"in a list":   {m{"list": []any{m{"n": 1}, m{"n": "x"}}}, m{"list": m{"type": "array", "items": m{"type": "object", "properties": m{"n": m{"type": "integer"}}}}}, nil, "spec.list[*].n", "must be of type integer"},
		"under a key": {m{"map": m{"k": 1}}, m{"map": m{"type": "object", "additionalProperties": m{"type": "string"}}}, nil, "spec.map.*", "must be of type string"},
	} {
		t.Run(name, func(t *testing.T) {
			c := newCluster(t, "op")
			define(c, revision("v1", m{"host": m{"type": "string"}, "size": m{"type": "integer"}}))
			c.create("kubectl", ref{sites, "front"}, m{"spec": x.spec})
			define(c, revision("v1", x.properties, x.required...))
			c.quiet(2 * time.Second)
			f := c.analyze(NewSchemaDrift()).only(t, "schema")
			if f.Severity != Warning || f.Field != x.field || f.Objects[0].Name != "front" || !strings.Contains(f.What, x.say) || !strings.Contains(f.Cause, "changed by installer") {
				t.Errorf("%s %s\n%s\n%s", f.Severity, f.Field, f.What, f.Cause)
			}
		})
	}
}

func TestWritesRefusedForTheSchema(t *testing.T) {
	c := newCluster(t, "op")
	define(c, revision("v1", m{"host": m{"type": "string"}}))
	s := site(c, "front")
	define(c, revision("v1", m{"host": m{"type": "string"}, "class": m{"type": "string"}}, "class"))
	for range 3 {
		c.begin("op", "update", "status", s).refuse(422, "Invalid")
	}
	c.quiet(2 * time.Second)
	f := c.analyze(NewSchemaDrift()).only(t, "schema")
	if f.Severity != Error || f.Process != "op" || f.Manager != "op" || !strings.Contains(f.Cause, "update of status by op was refused 3 times with 422 Invalid") {
		t.Errorf("%+v", f)
	}
}

func TestLostDefault(t *testing.T) {
	with := m{"host": m{"type": "string"}, "class": m{"type": "string", "default": "standard"}}
	without := m{"host": m{"type": "string"}, "class": m{"type": "string"}}
	c := newCluster(t, "op")
	define(c, revision("v1", with))
	c.create("kubectl", ref{sites, "front"}, m{"spec": m{"host": "x", "class": "standard"}})
	define(c, revision("v1", without))
	c.create("kubectl", ref{sites, "back"}, m{"spec": m{"host": "x"}})
	c.quiet(2 * time.Second)
	f := c.analyze(NewSchemaDrift()).only(t, "schema")
	if f.Manager != "installer" || f.Field != "spec.class" || f.Objects[0].Name != "back" || f.Total != 1 || !strings.Contains(f.What, `which was "standard" by default`) {
		t.Errorf("%+v", f)
	}
}

// The next edit of a definition, of something else, brings no default back; one that does ends the matter.
func TestLostDefaultAfterFurtherEdits(t *testing.T) {
	lost := m{"host": m{"type": "string"}, "class": m{"type": "string"}}
	for name, x := range map[string]struct {
		next []m
		lost bool
	}{
		"an edit of something else": {[]m{revision("v1", m{"host": m{"type": "string", "maxLength": 9}, "class": m{"type": "string"}})}, true},
		"another version is added":  {[]m{revision("v1", lost), revision("v2", lost)}, true},
		"the default is back":       {[]m{revision("v1", m{"host": m{"type": "string"}, "class": m{"type": "string", "default": "other"}})}, false},
		"the property is gone":      {[]m{revision("v1", m{"host": m{"type": "string"}})}, false},
		"the version is gone":       {[]m{revision("v2", lost)}, false},
	} {
		t.Run(name, func(t *testing.T) {
			c := newCluster(t, "op")
			define(c, revision("v1", m{"host": m{"type": "string"}, "class": m{"type": "string", "default": "standard"}}))
			define(c, revision("v1", lost))
			at := c.rv
			c.create("kubectl", ref{sites, "back"}, m{"spec": m{"host": "x"}})
			define(c, x.next...)
			c.create("kubectl", ref{sites, "side"}, m{"spec": m{"host": "x"}})
			c.quiet(2 * time.Second)
			r := c.analyze(NewSchemaDrift())
			if !x.lost {
				r.none(t)
				return
			}
			f := r.only(t, "schema")
			if f.Field != "spec.class" || f.Total != 2 || !strings.Contains(f.Cause, fmt.Sprintf("changed by installer as version %d", at)) {
				t.Errorf("%+v", f)
			}
		})
	}
}

func TestNoSchemaDrift(t *testing.T) {
	plain := m{"host": m{"type": "string"}}
	for name, play := range map[string]func(c *cluster){
		"all as it should be": func(c *cluster) {
			define(c, revision("v1", m{"host": m{"type": "string", "enum": []any{"front"}}}))
			site(c, "front")
		},
		"the objects are mended": func(c *cluster) {
			define(c, revision("v1", plain))
			s := site(c, "front")
			define(c, revision("v1", m{"host": m{"type": "string"}, "class": m{"type": "string"}}, "class"))
			c.spec("kubectl", s, m{"host": "front", "class": "x"})
		},
		"of another version": func(c *cluster) {
			define(c, revision("v1", plain), revision("v2", m{"host": m{"type": "integer"}}))
			site(c, "front")
		},
		"a null, and a number or a text": func(c *cluster) {
			define(c, revision("v1", m{"a": m{"type": "string", "nullable": true}, "b": m{"x-kubernetes-int-or-string": true}}))
			c.create("kubectl", ref{sites, "front"}, m{"spec": m{"a": nil, "b": 5}})
		},
		"a default that nobody needed": func(c *cluster) {
			define(c, revision("v1", m{"class": m{"type": "string", "default": "x"}}))
			c.create("kubectl", ref{sites, "front"}, m{"spec": m{"class": "x"}})
			define(c, revision("v1", m{"class": m{"type": "string"}}))
			c.status("op", ref{sites, "front"}, m{"n": 1})
		},
		"a definition that can't be read": func(c *cluster) {
			c.create("kubectl", ref{definitions, "sites.web.example.com"}, m{"spec": m{"versions": "none"}})
			site(c, "front")
		},
	} {
		t.Run(name, func(t *testing.T) {
			c := newCluster(t, "op")
			play(c)
			c.quiet(2 * time.Second)
			c.analyze(NewSchemaDrift()).none(t)
		})
	}
}
