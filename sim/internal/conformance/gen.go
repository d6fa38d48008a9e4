package conformance

import (
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
)

// The content types of patches, and of what else is sent.
const (
	jsonType       = "application/json"
	yamlType       = "application/yaml"
	protobufType   = "application/vnd.kubernetes.protobuf"
	mergePatch     = "application/merge-patch+json"
	jsonPatch      = "application/json-patch+json"
	strategicPatch = "application/strategic-merge-patch+json"
	applyPatch     = "application/apply-patch+yaml"
	applyCBOR      = "application/apply-patch+cbor"
	cborType       = "application/cbor"
)

// scenario is a way to make a sequence.
type scenario struct {
	name   string
	weight int
	make   func(*gen)
}

// scenarios are listed in a function, for they use each other.
func scenarios() []scenario {
	return []scenario{
		{"objects", 34, (*gen).objects},
		{"custom resources", 16, (*gen).customObjects},
		{"definitions", 3, (*gen).definitions},
		{"lists", 6, (*gen).lists},
		{"watches", 6, (*gen).watches},
		{"apply", 6, (*gen).applies},
		{"deletion", 5, (*gen).deletions},
		{"pods", 5, (*gen).pods},
		{"services", 3, (*gen).services},
		{"namespaces", 3, (*gen).namespaces},
		{"discovery", 3, (*gen).discovery},
		{"reviews", 3, (*gen).reviews},
		{"policies", 2, (*gen).policies},
		{"webhooks", 3, (*gen).webhooks},
		{"limits", 2, (*gen).limits},
		{"quotas", 2, (*gen).quotas},
		{"aggregation", 1, (*gen).aggregation},
		{"permissions", 2, (*gen).permissions},
		{"hostile", 6, (*gen).hostile},
	}
}

// Scenarios are the names of the ways in which sequences are made.
func Scenarios() []string {
	var out []string
	for _, s := range scenarios() {
		out = append(out, s.name)
	}
	return out
}

// Generate makes the sequence of that number. The same seed and number make the same sequence. If only is
// set, it is of that scenario.
func Generate(seed uint64, number int, only string) *Sequence {
	g := &gen{r: rand.New(rand.NewPCG(seed, uint64(number)))} //nolint:gosec // reproducible is what it must be
	total := 0
	all := scenarios()
	for _, s := range all {
		total += s.weight
	}
	n := g.r.IntN(total)
	for _, s := range all {
		n -= s.weight
		if only == s.name || only == "" && n < 0 {
			g.area = s.name
			s.make(g)
			return &Sequence{Seed: seed, Number: number, Name: s.name, Ops: g.ops}
		}
	}
	panic("conformance: no scenario " + only)
}

// gen makes one sequence.
type gen struct {
	r    *rand.Rand
	ops  []*Op
	area string
	// converts is what the conversion webhook of the kind that is defined next does, if it has one.
	converts string
}

// add appends an operation and gives its number.
func (g *gen) add(op Op) int {
	op.ID = len(g.ops) + 1
	if op.Area == "" {
		op.Area = g.area
	}
	g.ops = append(g.ops, &op)
	return op.ID
}

func (g *gen) chance(percent int) bool { return g.r.IntN(100) < percent }

func pick[T any](g *gen, from ...T) T { return from[g.r.IntN(len(from))] }

// seldom picks one that is good, or once in a while what is not.
func (g *gen) seldom(bad string, good ...string) string {
	if g.chance(6) {
		return bad
	}
	return pick(g, good...)
}

// keys are a map's keys in an order.
func keys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }

// cast is the objects of one kind that a sequence is about.
type cast struct {
	g     *gen
	k     *kind
	names []string
	// last is the operation that showed an object last, or where there is none, one that did not.
	last map[string]int
	any  int // the last operation that showed any
	// there says which of them probably exist.
	there map[string]bool
}

func (g *gen) cast(k *kind, names ...string) *cast {
	return &cast{g: g, k: k, names: names, last: map[string]int{}, there: map[string]bool{}}
}

func (c *cast) op(verb, method, path string) Op {
	return Op{Verb: verb, Kind: c.k.id(), Method: method, Path: path}
}

func (c *cast) item(name string) string { return c.k.path() + "/" + c.k.named(name) }

// some is one of the names, for the most part that of an object which exists.
func (c *cast) some() string { return c.like(true) }

// free is one of the names, for the most part one that no object has.
func (c *cast) free() string { return c.like(false) }

func (c *cast) like(there bool) string {
	var of []string
	for _, n := range c.names {
		if c.there[n] == there {
			of = append(of, n)
		}
	}
	if len(of) == 0 || c.g.chance(6) {
		of = c.names
	}
	return pick(c.g, of...)
}

// peopled says that some of them probably exist.
func (c *cast) peopled() bool { return slices.Contains(slices.Collect(maps.Values(c.there)), true) }

// note says that op shows the object.
func (c *cast) note(name string, id int) int {
	c.last[name], c.any = id, id
	return id
}

// objects is about one or two built-in kinds.
func (g *gen) objects() {
	k := builtins[g.r.IntN(len(builtins))]
	c := g.cast(k, "a", "b", "c")
	if k.Name != "" && !strings.Contains(k.Name, "%s") {
		c.names = c.names[:1]
	}
	g.steps(c, 18+g.r.IntN(12))
}

// steps begins with two creations, perhaps a watch, and goes on with n operations at random.
func (g *gen) steps(c *cast, n int) {
	if g.chance(40) {
		c.watch()
	}
	c.create(c.names[0], true)
	if len(c.names) > 1 {
		c.create(c.names[1], g.chance(50))
	}
	for range n {
		c.step()
	}
}

// step is one operation at random.
func (c *cast) step() {
	g, name := c.g, pick(c.g, c.names...)
	if !c.there[name] && (g.chance(60) || !c.peopled() && g.chance(90)) {
		c.create(name, g.chance(85))
		return
	}
	name = c.some()
	switch n := g.r.IntN(100); {
	case n < 3:
		c.create(name, g.chance(50))
	case n < 15:
		c.label(name)
	case n < 24:
		c.get(name)
	case n < 34:
		c.list()
	case n < 46:
		c.update(name)
	case n < 66:
		c.patch(name)
	case n < 76:
		c.apply(name, pick(g, "one", "two", "three"), g.chance(60))
	case n < 86 && len(c.k.Subs) > 0:
		c.sub(name)
	case n < 96:
		c.remove(name)
	case n < 98:
		c.removeAll()
	default:
		c.watch()
	}
}

// label is a change that nobody objects to, in one of the forms.
func (c *cast) label(name string) int {
	g := c.g
	op := c.op("patch", "PATCH", c.item(name))
	meta := map[string]any{pick(g, "labels", "annotations"): map[string]any{"n": fmt.Sprint(g.r.IntN(4))}}
	op.Type, op.Body = pick(g, mergePatch, mergePatch, strategicPatch), asJSON(map[string]any{"metadata": meta})
	if c.k.change != nil {
		op.Type = mergePatch
	}
	return c.note(name, g.add(op))
}

// writeOptions are query parameters of a write.
func (g *gen) writeOptions() string {
	var q []string
	if g.chance(30) {
		q = append(q, "fieldManager="+g.seldom(strings.Repeat("m", 129), "one", "two", "a%20b"))
	}
	if g.chance(40) {
		q = append(q, "fieldValidation="+g.seldom("Maybe", "Strict", "Warn", "Ignore"))
	}
	if g.chance(12) {
		q = append(q, "dryRun="+g.seldom("Some", "All"))
	}
	if g.chance(4) {
		q = append(q, "pretty=true")
	}
	return query(q)
}

func query(q []string) string {
	if len(q) == 0 {
		return ""
	}
	return "?" + strings.Join(q, "&")
}

// tableType asks for a Table.
const tableType = "application/json;as=Table;v=v1;g=meta.k8s.io"

// forms are what a client may ask to be answered in.
var forms = []string{
	yamlType, "*/*", "application/*", "application/json;q=0.1, application/yaml", tableType, tableType + ", application/json",
	"application/json;as=Table;v=v1beta1;g=meta.k8s.io", "application/vnd.kubernetes.protobuf, application/json", cborType + ", application/json",
}

// formsOfOne are for answers that hold an object, formsOfMany for lists.
var (
	formsOfOne = []string{
		"application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io", "application/vnd.kubernetes.protobuf;as=PartialObjectMetadata;v=v1;g=meta.k8s.io",
		"application/json;as=PartialObjectMetadata;v=v1beta1;g=meta.k8s.io",
	}
	formsOfMany = []string{"application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io"}
)

// oddForms are what is refused, for the most part.
var oddForms = []string{
	"text/html", cborType, "application/json;as=Nothing;v=v1;g=meta.k8s.io", "application/json;stream=watch", formsOfOne[0], formsOfMany[0],
}

func (g *gen) accept(list bool) string {
	switch n := g.r.IntN(100); {
	case n < 3:
		return pick(g, oddForms...)
	case n < 7 && g.area != "custom resources": // which are not answered in it
		return protobufType
	case n < 12 && list:
		return pick(g, formsOfMany...)
	case n < 12:
		return pick(g, formsOfOne...)
	case n < 27:
		return pick(g, forms...)
	}
	return ""
}

func (c *cast) create(name string, valid bool) int {
	g, k := c.g, c.k
	op := c.op("create", "POST", k.path())
	obj := k.object(name)
	if !valid {
		obj = merge(obj, g.edit(k))
		if g.chance(20) {
			obj = merge(obj, g.metadata())
		}
		op.Path += g.writeOptions()
		op.Accept = g.accept(false)
	}
	if !strings.Contains(op.Path, "dryRun") {
		c.there[name] = true
	}
	if !valid && g.chance(10) && k.Name == "" {
		m := obj["metadata"].(map[string]any)
		delete(m, "name")
		m["generateName"] = k.named(fmt.Sprintf("g%d-", len(g.ops)+1))
		c.send(&op, obj)
		return g.add(op)
	}
	c.send(&op, obj)
	return c.note(name, g.add(op))
}

// send makes an object the body of op, in one of the forms.
func (c *cast) send(op *Op, obj map[string]any) {
	op.Body, op.Type = asJSON(obj), jsonType
	switch n := c.g.r.IntN(100); {
	case n < 8:
		op.As, op.Type = "yaml", yamlType
	case n < 16 && !strings.Contains(op.Body, "${") && c.k.change == nil:
		op.As, op.Type = "protobuf", protobufType
	case n < 17:
		op.Type = pick(c.g, "", "text/plain", cborType, protobufType, yamlType, mergePatch, "nonsense")
	case n < 18:
		op.As = "slow"
	}
}

func (c *cast) get(name string) int {
	g := c.g
	op := c.op("get", "GET", c.item(name))
	op.Accept = g.accept(false)
	if g.chance(20) {
		op.Settle = c.k.path()
		op.Path += "?resourceVersion=" + g.seldom("x", "0", "0", c.version(), "1")
	}
	id := g.add(op)
	if op.Accept == "" {
		c.note(name, id)
	}
	return id
}

// version is a resourceVersion that was seen.
func (c *cast) version() string {
	if c.any == 0 {
		return "0"
	}
	return fmt.Sprintf("${%d.metadata.resourceVersion}", c.any)
}

// update writes back what was read, changed: for the most part what the object is now, else what it was once.
func (c *cast) update(name string) int {
	g := c.g
	op := c.op("update", "PUT", c.item(name)+g.writeOptions())
	op.Type, op.Accept = jsonType, g.accept(false)
	edit := g.edit(c.k)
	if g.chance(25) {
		edit = merge(edit, g.metadata())
	}
	if g.chance(5) {
		edit = merge(edit, map[string]any{"metadata": map[string]any{"resourceVersion": pick[any](g, nil, "", "1", "0", "x", "999999999")}})
	}
	from := c.last[name]
	switch n := g.r.IntN(100); {
	case n < 80:
		op.Read, op.Edit, op.Body = c.item(name), json.RawMessage(asJSON(edit)), asJSON(c.k.object(name))
	case n < 90 && from != 0:
		op.From, op.Edit = from, json.RawMessage(asJSON(edit))
	default:
		c.send(&op, merge(c.k.object(name), edit))
	}
	if g.chance(8) {
		op.Edit = nil // writes back what it was
	}
	return c.note(name, g.add(op))
}

func (c *cast) patch(name string) int {
	op := c.op("patch", "PATCH", c.item(name)+c.g.writeOptions())
	op.Accept = c.g.accept(false)
	c.fillPatch(&op)
	return c.note(name, c.g.add(op))
}

// fillPatch makes op a patch of one of three kinds.
func (c *cast) fillPatch(op *Op) {
	g := c.g
	edit := g.edit(c.k)
	if g.chance(20) {
		edit = merge(edit, g.metadata())
	}
	switch n := g.r.IntN(100); {
	case n < 40 || n < 68 && c.k.change != nil: // a custom resource takes no strategic merge patch
		op.Type, op.Body = mergePatch, asJSON(edit)
	case n < 70:
		op.Type, op.Body = strategicPatch, asJSON(g.directives(edit))
	case n < 99:
		op.Type, op.Body = jsonPatch, asJSON(g.jsonPatch(edit))
	default:
		op.Type, op.Body = pick(g, jsonType, "", "text/plain", mergePatch, jsonPatch, applyCBOR), pick(g, "", "{", "[]", "{}", "null", `"x"`)
	}
}

// directives adds what only strategic merge patches know.
func (g *gen) directives(edit map[string]any) map[string]any {
	if !g.chance(12) {
		return edit
	}
	for _, k := range keys(edit) {
		if m, ok := edit[k].(map[string]any); ok && k != "metadata" {
			m["$patch"] = pick(g, "replace", "delete", "merge", "sing")
			return edit
		}
	}
	return merge(edit, map[string]any{"metadata": map[string]any{
		"$deleteFromPrimitiveList/finalizers": []any{"example.com/a"}, "$retainKeys": []any{"labels"},
	}})
}

// jsonPatch says with JSON patch operations (RFC 6902) what a merge patch says.
func (g *gen) jsonPatch(edit map[string]any) []any {
	var out []any
	var walk func(path string, v any)
	walk = func(path string, v any) {
		if m, ok := v.(map[string]any); ok && len(m) > 0 && (path == "" || strings.Count(path, "/") < 3 && g.chance(80)) {
			for _, k := range keys(m) {
				walk(path+"/"+strings.NewReplacer("~", "~0", "/", "~1").Replace(k), m[k])
			}
			return
		}
		op := map[string]any{"op": pick(g, "add", "add", "add", "add", "add", "replace", "test"), "path": path, "value": v}
		if v == nil {
			op = map[string]any{"op": "remove", "path": path}
		}
		out = append(out, op)
	}
	walk("", edit)
	if g.chance(10) {
		out = append(out, pick(g,
			map[string]any{"op": "copy", "from": "/metadata/labels/app", "path": "/metadata/labels/copy"},
			map[string]any{"op": "move", "from": "/metadata/labels/app", "path": "/metadata/labels/moved"},
			map[string]any{"op": "nothing", "path": "/spec"},
			map[string]any{"op": "add", "path": "no/slash", "value": 1},
			map[string]any{"op": "remove", "path": "/metadata/name"},
			map[string]any{"op": "test", "path": "/metadata/name", "value": "another"},
			map[string]any{"op": "replace", "path": "", "value": map[string]any{}},
		))
	}
	return out
}

func (c *cast) apply(name, manager string, valid bool) int {
	g, k := c.g, c.k
	q := []string{"fieldManager=" + manager}
	if g.chance(60) {
		q = append(q, "force="+g.seldom("perhaps", "true", "true", "true", "false"))
	}
	if g.chance(25) {
		q = append(q, "fieldValidation="+pick(g, "Strict", "Warn", "Ignore"))
	}
	if g.chance(10) {
		q = append(q, "dryRun=All")
	}
	if g.chance(4) {
		q = q[1:]
	}
	op := c.op("apply", "PATCH", c.item(name)+query(q))
	obj := k.object(name)
	if c.there[name] && g.chance(50) {
		// Part of an object, as those who own some fields apply it.
		for _, f := range keys(obj) {
			if f != "apiVersion" && f != "kind" && f != "metadata" && g.chance(50) {
				delete(obj, f)
			}
		}
		delete(obj["metadata"].(map[string]any), "labels")
	}
	if !valid {
		obj = merge(obj, g.edit(k))
	}
	if !strings.Contains(op.Path, "dryRun") {
		c.there[name] = true
	}
	if g.chance(8) {
		obj = merge(obj, g.metadata())
	}
	op.Type, op.Body, op.Accept = applyPatch, asJSON(obj), g.accept(false)
	if g.chance(20) {
		op.As = "yaml"
	}
	return c.note(name, g.add(op))
}

func (c *cast) sub(name string) {
	g := c.g
	s := pick(g, c.k.Subs...)
	path := c.item(name) + "/" + s
	switch g.r.IntN(4) {
	case 0:
		op := c.op(s, "GET", path)
		op.Accept = g.accept(false)
		g.add(op)
	case 1:
		op := c.op(s, "PUT", path+g.writeOptions())
		op.Type, op.Read, op.Edit = jsonType, path, json.RawMessage(asJSON(c.subEdit(s)))
		if id := g.add(op); s != "scale" {
			c.note(name, id)
		}
	case 2:
		op := c.op(s, "PATCH", path+g.writeOptions())
		op.Type, op.Body = pick(g, mergePatch, mergePatch, strategicPatch), asJSON(c.subEdit(s))
		if c.k.change != nil && g.chance(90) {
			op.Type = mergePatch
		}
		g.add(op)
	default:
		op := c.op(s, "PATCH", path+"?fieldManager="+pick(g, "one", "status")+pick(g, "", "&force=true"))
		op.Type = applyPatch
		obj := c.subEdit(s)
		obj["apiVersion"], obj["kind"] = c.k.APIVersion, c.k.Kind
		if s == "scale" {
			obj["apiVersion"], obj["kind"] = "autoscaling/v1", "Scale"
		}
		merge(obj, map[string]any{"metadata": map[string]any{"name": c.k.named(name)}})
		op.Body = asJSON(obj)
		g.add(op)
	}
}

// subEdit is a change of a subresource, now and then with one of what it may not change.
func (c *cast) subEdit(s string) map[string]any {
	g := c.g
	if s == "scale" {
		if g.chance(70) {
			return map[string]any{"spec": map[string]any{"replicas": g.r.IntN(5)}}
		}
		return pick(g,
			map[string]any{"spec": map[string]any{"replicas": -1}},
			map[string]any{"spec": map[string]any{"replicas": "two"}},
			map[string]any{"spec": nil},
			map[string]any{"spec": map[string]any{"replicas": 1}, "status": map[string]any{"replicas": 7}},
		)
	}
	var of []map[string]any
	for _, e := range c.k.Edits {
		if _, ok := e["status"]; ok {
			of = append(of, e)
		}
	}
	var edit map[string]any
	switch {
	case len(of) > 0 && g.chance(70):
		edit = clone(pick(g, of...))
	case len(of) == 0 && g.chance(50):
		edit = g.calm()
	case g.chance(70):
		edit = g.change(c.k, "status")
	default:
		edit = g.edit(c.k)
	}
	if g.chance(20) {
		merge(edit, g.metadata())
	}
	return edit
}

func (c *cast) remove(name string) int {
	g := c.g
	op := c.op("delete", "DELETE", c.item(name))
	op.Accept = g.accept(false)
	if g.chance(60) {
		op.Type, op.Body = jsonType, asJSON(c.deleteOptions(name))
	} else {
		var q []string
		if g.chance(40) {
			q = append(q, "gracePeriodSeconds="+g.seldom("x", "0", "1", "30", "-1"))
		}
		if g.chance(40) {
			q = append(q, "propagationPolicy="+g.seldom("Nope", "Orphan", "Foreground", "Background"))
		}
		if g.chance(10) {
			q = append(q, "dryRun=All")
		}
		op.Path += query(q)
	}
	c.there[name] = c.there[name] && strings.Contains(op.Path+op.Body, "dryRun")
	return g.add(op)
}

func (c *cast) deleteOptions(name string) map[string]any {
	g := c.g
	o := map[string]any{}
	if g.chance(40) {
		o["propagationPolicy"] = g.seldom("Nope", "Orphan", "Foreground", "Background")
	}
	if g.chance(40) {
		o["gracePeriodSeconds"] = pick[any](g, 0, 1, 30, 300, -1)
	}
	if g.chance(2) {
		o["gracePeriodSeconds"] = "x"
	}
	if g.chance(5) {
		o["orphanDependents"] = g.chance(50)
	}
	if g.chance(15) {
		p := map[string]any{}
		if last := c.last[name]; last != 0 && g.chance(75) {
			p["resourceVersion"] = fmt.Sprintf("${%d.metadata.resourceVersion}", last)
			p["uid"] = fmt.Sprintf("${%d.metadata.uid}", last)
		} else {
			p["uid"] = "00000000-1111-4000-8000-000000000000"
		}
		o["preconditions"] = p
	}
	if g.chance(8) {
		o["dryRun"] = []any{g.seldom("Some", "All")}
	}
	if g.chance(5) {
		o["unknown"] = 1
	}
	if g.chance(2) {
		o["ignoreStoreReadErrorWithClusterBreakingPotential"] = true
	}
	if g.chance(20) {
		o["apiVersion"], o["kind"] = g.seldom("x/v9", "v1", "meta.k8s.io/v1", c.k.APIVersion), g.seldom("Other", "DeleteOptions")
	}
	return o
}

func (c *cast) removeAll() {
	g := c.g
	op := c.op("deletecollection", "DELETE", c.k.path()+"?labelSelector="+c.selector()+
		pick(g, "", "", "&dryRun=All", "&limit=1", "&propagationPolicy=Foreground", "&gracePeriodSeconds=0", "&resourceVersion=0"))
	if strings.Contains(op.Path, "resourceVersion=0") {
		op.Settle = c.k.path() // it may begin with a list that is older
	}
	op.Accept = g.accept(false)
	g.add(op)
}

// selector selects objects of this sequence only: there are others outside of namespaces.
func (c *cast) selector() string {
	g := c.g
	return "seq%3D${ns}" + pick(g, "", "", "%2Capp%3D"+pick(g, c.names...), "%2Capp", "%2C%21app", "%2Capp%21%3Da", "%2Capp+in+%28a%2Cb%29")
}
