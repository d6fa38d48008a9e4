package actor

import (
	"reflect"
)

// Rebase moves the change before → after onto current and returns the result; none of the three is changed.
// All are JSON values as encoding/json decodes them.
//
// Members of an object that the change leaves alone stay as they are in current. Lists of single values
// (finalizers) are treated as sets whose order is kept. Lists of objects that a key tells apart (conditions by
// type, containers by name, ownerReferences by uid) are changed element by element. Any other list or value that
// the change touches becomes that of after.
func Rebase(before, after, current any) any {
	if reflect.DeepEqual(before, after) {
		return current
	}
	switch a := after.(type) {
	case map[string]any:
		b, _ := before.(map[string]any)
		c, ok := current.(map[string]any)
		if ok || current == nil {
			return rebaseObject(b, a, c)
		}
	case []any:
		b, _ := before.([]any)
		c, ok := current.([]any)
		if ok || current == nil {
			return rebaseList(b, a, c)
		}
	}
	return after
}

func rebaseObject(before, after, current map[string]any) map[string]any {
	out := map[string]any{}
	for k, v := range current {
		_, was := before[k]
		_, is := after[k]
		if !was || is { // what the change took away goes
			out[k] = v
		}
	}
	for k, v := range after {
		old, was := before[k]
		if was && reflect.DeepEqual(old, v) {
			continue // left alone, even if it is not there any more
		}
		out[k] = Rebase(old, v, current[k])
	}
	return out
}

// listKeys are the members that tell the elements of Kubernetes' lists apart, the more telling first.
var listKeys = []string{"uid", "type", "name", "key", "containerPort", "port", "mountPath", "devicePath", "topologyKey", "ip"}

func rebaseList(before, after, current []any) any {
	if reflect.DeepEqual(before, current) {
		return after
	}
	if id, ok := identify(before, after, current); ok {
		return rebaseElements(before, after, current, id)
	}
	return after
}

// identify finds what tells the elements of all three lists apart: themselves when they are single values, a
// key that each has and no two share when they are objects.
func identify(lists ...[]any) (id func(any) any, ok bool) {
	self := func(e any) any {
		switch e.(type) {
		case map[string]any, []any:
			return nil
		}
		return e
	}
	candidates := []func(any) any{self}
	for _, key := range listKeys {
		candidates = append(candidates, func(e any) any {
			m, _ := e.(map[string]any)
			return self(m[key])
		})
	}
	for _, candidate := range candidates {
		if unique(candidate, lists) {
			return candidate, true
		}
	}
	return nil, false
}

func unique(id func(any) any, lists [][]any) bool {
	for _, l := range lists {
		seen := map[any]bool{}
		for _, e := range l {
			k := id(e)
			if k == nil || seen[k] {
				return false
			}
			seen[k] = true
		}
	}
	return true
}

func rebaseElements(before, after, current []any, id func(any) any) any {
	index := func(l []any) map[any]any {
		m := map[any]any{}
		for _, e := range l {
			m[id(e)] = e
		}
		return m
	}
	was, is, now := index(before), index(after), index(current)
	out := []any{}
	for _, e := range current {
		k := id(e)
		_, w := was[k]
		a, i := is[k]
		switch {
		case i:
			out = append(out, Rebase(was[k], a, e))
		case !w:
			out = append(out, e) // of somebody else
		}
	}
	for _, e := range after {
		k := id(e)
		if _, n := now[k]; n {
			continue
		}
		if w, there := was[k]; there && reflect.DeepEqual(w, e) {
			continue // left alone by the change and gone by now
		}
		out = append(out, e)
	}
	return out
}

// MergePatch is the JSON merge patch (RFC 7386) that makes to of from; ok is false when there is nothing to do. (That
// of json-patch has all numbers pass through float64, which holds no large integer.)
func MergePatch(from, to map[string]any) (patch map[string]any, ok bool) {
	patch = map[string]any{}
	for k := range from {
		if _, stays := to[k]; !stays {
			patch[k] = nil
		}
	}
	for k, v := range to {
		old, was := from[k]
		if was && reflect.DeepEqual(old, v) {
			continue
		}
		oldMap, isMap := old.(map[string]any)
		newMap, toMap := v.(map[string]any)
		if isMap && toMap {
			if inner, differs := MergePatch(oldMap, newMap); differs {
				patch[k] = inner
			}
			continue
		}
		patch[k] = v
	}
	return patch, len(patch) > 0
}
