package actor

import (
	"encoding/json"
	"fmt"
	"strings"
)

// managed are the members of metadata that the API server alone writes.
var managed = []string{
	"uid", "resourceVersion", "generation", "creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds",
	"managedFields", "selfLink",
}

func decode(text string) (map[string]any, error) {
	d := json.NewDecoder(strings.NewReader(text))
	d.UseNumber() // numbers stay as they were written
	var m map[string]any
	if err := d.Decode(&m); err != nil {
		return nil, fmt.Errorf("the object is no JSON object: %w", err)
	}
	return m, nil
}

// metadata is o's metadata, made if it is not there.
func metadata(o map[string]any) map[string]any {
	m, ok := o["metadata"].(map[string]any)
	if !ok {
		m = map[string]any{}
		o["metadata"] = m
	}
	return m
}

func metaText(o map[string]any, key string) string {
	m, _ := o["metadata"].(map[string]any)
	s, _ := m[key].(string)
	return s
}

// strip takes away what a client does not send. o is changed.
func strip(o map[string]any) {
	m := metadata(o)
	for _, k := range managed {
		delete(m, k)
	}
}

// list is a list of objects inside metadata, such as ownerReferences.
func metaObjects(o map[string]any, key string) []map[string]any {
	m, _ := o["metadata"].(map[string]any)
	l, _ := m[key].([]any)
	var out []map[string]any
	for _, e := range l {
		if e, ok := e.(map[string]any); ok {
			out = append(out, e)
		}
	}
	return out
}

func metaTexts(o map[string]any, key string) []string {
	m, _ := o["metadata"].(map[string]any)
	l, _ := m[key].([]any)
	var out []string
	for _, e := range l {
		if s, ok := e.(string); ok {
			out = append(out, s)
		}
	}
	return out
}

// only is o without all but the named members.
func only(o map[string]any, keys ...string) map[string]any {
	out := map[string]any{}
	for _, k := range keys {
		if v, ok := o[k]; ok {
			out[k] = v
		}
	}
	return out
}

// without is o without the named members.
func without(o map[string]any, keys ...string) map[string]any {
	out := map[string]any{}
	for k, v := range o {
		out[k] = v
	}
	for _, k := range keys {
		delete(out, k)
	}
	return out
}
