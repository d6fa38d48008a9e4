// Package jsontext reads Kubernetes objects as the JSON text that they are, without decoding them.
//
// An analysis looks at millions of objects and wants three fields of each, and of two versions of one object
// only what differs. Decoding into maps costs a hundred times as much as looking:
//
//	rv, _ := jsontext.Get(body, "metadata", "resourceVersion") // `"1234"`
//
//	var d jsontext.Differ
//	for _, leaf := range d.Objects(before, after) {
//		fmt.Println(leaf.Path, leaf.Kind) // status.conditions[Ready].lastTransitionTime time
//	}
//
// Who follows an object from version to version has each split, and pays for the next what it takes to find the places
// that differ. Of what has been split, the usual fields are had without a search:
//
//	top := jsontext.Split(first)
//	top, leaves := d.Follow(&top, second)
//	rv, _ := top.Get("metadata", "resourceVersion")
//
// The texts come from API servers, so they are mostly valid; what is not valid is never a reason to panic: a
// malformed value ends the walk over its container. Nothing is unescaped: keys and values are compared as
// written, which is enough, since one server writes one string in one way.
package jsontext
