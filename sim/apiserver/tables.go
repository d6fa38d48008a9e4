package apiserver

import (
	"context"
	"net/http"
	"reflect"
	"strings"
	"sync/atomic"
	"time"
	"unsafe"

	"k8s.io/apiextensions-apiserver/pkg/registry/customresource"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/endpoints/handlers"
	genericregistry "k8s.io/apiserver/pkg/registry/generic/registry"
	"k8s.io/apiserver/pkg/registry/rest"
)

// agedTables makes tables (kubectl get) whose ages are counted by the world's clock. Those that print them ask the
// wall clock how long ago a time was, so they are shown objects whose times are as long ago by that.
type agedTables struct {
	rest.TableConvertor
	now func() time.Time
}

// ConvertToTable implements rest.TableConvertor.
func (c agedTables) ConvertToTable(ctx context.Context, obj, options runtime.Object) (*metav1.Table, error) {
	// Whole seconds, as stored times have: what printing takes does not show.
	by := time.Since(c.now().Truncate(time.Second))
	moved := obj.DeepCopyObject()
	moveTimes(reflect.ValueOf(moved), by)
	var table *metav1.Table
	var err error
	if unstructuredTimes(moved, by) {
		table, err = c.dates(ctx, obj, moved, options)
	} else {
		table, err = c.TableConvertor.ConvertToTable(ctx, moved, options)
	}
	if err != nil {
		return nil, err
	}
	originals := map[runtime.Object]runtime.Object{moved: obj}
	if meta.IsListType(obj) {
		before, after := items(obj), items(moved)
		for i, o := range after {
			originals[o] = before[i]
		}
	}
	for i := range table.Rows {
		if o, ok := originals[table.Rows[i].Object.Object]; ok {
			table.Rows[i].Object.Object = o
		}
	}
	return table, nil
}

// dates is the table of custom resources: the columns that are dates are printed of the moved ones. Others may show a
// time as it is.
func (c agedTables) dates(ctx context.Context, obj, moved, options runtime.Object) (*metav1.Table, error) {
	table, err := c.TableConvertor.ConvertToTable(ctx, obj, nil)
	if err != nil {
		return nil, err
	}
	aged, err := c.TableConvertor.ConvertToTable(ctx, moved, nil)
	if err != nil {
		return nil, err
	}
	for i, column := range table.ColumnDefinitions {
		for row := range table.Rows {
			if column.Type == "date" {
				table.Rows[row].Cells[i] = aged.Rows[row].Cells[i]
			}
		}
	}
	if o, ok := options.(*metav1.TableOptions); ok && o != nil && o.NoHeaders {
		table.ColumnDefinitions = nil
	}
	return table, nil
}

func items(list runtime.Object) (out []runtime.Object) {
	// Fails when fn does.
	_ = meta.EachListItem(list, func(o runtime.Object) error { out = append(out, o); return nil })
	return out
}

// moveTimes moves all times in v, but for those in maps and of managedFields, which no printer looks at.
func moveTimes(v reflect.Value, by time.Duration) {
	switch v.Kind() {
	case reflect.Pointer:
		if !v.IsNil() {
			moveTimes(v.Elem(), by)
		}
	case reflect.Slice:
		for i := range v.Len() {
			moveTimes(v.Index(i), by)
		}
	case reflect.Struct:
		switch t := v.Addr().Interface().(type) {
		case *metav1.Time:
			if !t.IsZero() {
				t.Time = t.Add(by)
			}
		case *metav1.MicroTime:
			if !t.IsZero() {
				t.Time = t.Add(by)
			}
		case *metav1.ManagedFieldsEntry:
		default:
			for i := range v.NumField() {
				if v.Type().Field(i).IsExported() {
					moveTimes(v.Field(i), by)
				}
			}
		}
	default:
	}
}

// unstructuredTimes does the same for custom resources, and reports whether obj is one, or a list.
func unstructuredTimes(obj runtime.Object, by time.Duration) bool {
	switch o := obj.(type) {
	case *unstructured.Unstructured:
		moveStrings(o.Object, by)
	case *unstructured.UnstructuredList:
		for i := range o.Items {
			moveStrings(o.Items[i].Object, by)
		}
	default:
		return false
	}
	return true
}

func moveStrings(v any, by time.Duration) any {
	switch v := v.(type) {
	case map[string]any:
		for k, x := range v {
			v[k] = moveStrings(x, by)
		}
	case []any:
		for i, x := range v {
			v[i] = moveStrings(x, by)
		}
	case string:
		if t, err := time.Parse(time.RFC3339, v); err == nil {
			return t.Add(by).Format(time.RFC3339Nano)
		}
	}
	return v
}

// ageTables has a registry make such tables, if it is one.
func ageTables(storage rest.Storage, now func() time.Time) {
	v := reflect.Indirect(reflect.ValueOf(storage))
	if v.Kind() != reflect.Struct || !v.CanAddr() {
		return
	}
	// Those of RBAC are wrapped (k8s.io/kubernetes/pkg/registry/rbac/role/policybased).
	if inner := v.FieldByName("StandardStorage"); inner.IsValid() {
		if s, ok := inner.Interface().(rest.Storage); ok {
			ageTables(s, now)
		}
		return
	}
	for _, name := range []string{"Store", "store"} {
		field := v.FieldByName(name)
		if !field.IsValid() {
			continue
		}
		s, ok := hidden(field).(**genericregistry.Store)
		if !ok || *s == nil {
			continue
		}
		ageConvertor(&(*s).TableConvertor, now)
	}
}

func ageConvertor(c *rest.TableConvertor, now func() time.Time) {
	switch (*c).(type) {
	case nil, agedTables:
	default:
		if reflect.TypeOf(*c) != plainTables {
			*c = agedTables{*c, now}
		}
	}
}

// plainTables show when an object was created, and no ages.
var plainTables = reflect.TypeOf(rest.NewDefaultTableConvertor(schema.GroupResource{}))

// ageCustomTables does so for the registries, and the scales, of the custom resource that a request for a table is about. The
// handler makes them when they are needed and shows them to nobody.
func (c *customs) ageCustomTables(r *http.Request, group string, path []string) {
	if c.now == nil || !strings.Contains(r.Header.Get("Accept"), "as=Table") {
		return
	}
	if len(path) > 2 && path[0] == "namespaces" {
		path = path[2:]
	}
	crd := c.view.get(path[0] + "." + group)
	if crd == nil {
		return
	}
	// Makes them, if they are not there.
	if _, err := c.instances.GetCustomResourceListerCollectionDeleter(crd); err != nil {
		return // the request will be told
	}
	c.tables.Lock()
	defer c.tables.Unlock()
	held := hidden(reflect.ValueOf(c.instances).Elem().FieldByName("customStorage")).(*atomic.Value)
	info := reflect.ValueOf(held.Load()).MapIndex(reflect.ValueOf(crd.UID))
	if !info.IsValid() {
		return // deleted meanwhile
	}
	versions := *hidden(info.Elem().FieldByName("storages")).(*map[string]customresource.CustomResourceStorage)
	for _, v := range versions {
		ageTables(v.CustomResource, c.now)
	}
	scales := *hidden(info.Elem().FieldByName("scaleRequestScopes")).(*map[string]*handlers.RequestScope)
	for _, scope := range scales {
		ageConvertor(&scope.TableConvertor, c.now)
	}
}

// hidden is a pointer to a field that its package keeps to itself.
func hidden(field reflect.Value) any {
	return reflect.NewAt(field.Type(), unsafe.Pointer(field.UnsafeAddr())).Interface()
}
