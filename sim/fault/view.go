package fault

import (
	"fmt"
	"slices"
	"strings"
)

// View is what a process is shown of the world after a restart: the past of one resource, or the present.
//
// On a real cluster: an API server answers lists with resourceVersion=0, and serves watches, from a cache per
// resource, which may lag behind etcd by seconds and more; where there are several API servers, a process that
// starts again and reaches another one may be shown a past that its predecessor had already seen beyond. The
// cache is one state of its resource, so that a View is of a whole resource and never of one object among
// newer ones, and it only ever moves forward: what has happened since is delivered, in order, when the view
// ends. Reads of single objects (GET), writes, their preconditions and the conflicts that these bring come
// from etcd and are true.
//
// A read that asks for the most recent state (no resourceVersion; what an informer of client-go 0.35 and later
// begins with) is never answered from a cache that lags on a real cluster. It is shown the View here all the
// same, unless Comeback.Cached says otherwise: a run notes where that happened.
type View struct {
	// Resource is the plural, with .GROUP or without, or "*" for all; "" is that of the call.
	Resource string
	// Name and Namespace are of an object: the view is then the latest state of the resource in which this
	// object was as it was at the moment. Without a name, the view is the state of the resource at the moment.
	Name, Namespace string
	// After makes the moment that just after the call, instead of just before it.
	After bool
	// Call is the call of the moment; the zero Selector is the present.
	Call Selector
}

// ParseView parses "current", or [RESOURCE[/NAME] [-n NAMESPACE]] before|after CALL. Without a resource it is the
// object of the call.
func ParseView(text string) (v View, err error) {
	words := strings.Fields(text)
	if len(words) == 1 && words[0] == "current" {
		return View{}, nil
	}
	i := slices.IndexFunc(words, func(w string) bool { return w == "before" || w == "after" })
	if i < 0 {
		return v, fmt.Errorf("%q is no view; want current, or [RESOURCE[/NAME]] before|after CALL", text)
	}
	v.After = words[i] == "after"
	if v.Call, err = ParseCall(strings.Join(words[i+1:], " ")); err != nil {
		return View{}, err
	}
	if i == 0 {
		if v.Call.Resource == "*" {
			return View{}, fmt.Errorf("view %q does not say of what; want RESOURCE[/NAME] in front of %q", text, words[i])
		}
		return v, nil
	}
	of, err := ParseCall("* " + strings.Join(words[:i], " "))
	if err != nil || of.N != 0 || of.Subresource != "" || of.Resource == "*" && (of.Name != "" || of.Namespace != "") || of.Namespace != "" && of.Name == "" {
		return View{}, fmt.Errorf("view %q: %q is not RESOURCE, RESOURCE/NAME [-n NAMESPACE] or *", text, strings.Join(words[:i], " "))
	}
	if of.Name == "*" {
		of.Name = ""
	}
	v.Resource, v.Name, v.Namespace = of.Resource, of.Name, of.Namespace
	return v, nil
}

// String is the view as it parses.
func (v View) String() string {
	if v.Call == (Selector{}) {
		return "current"
	}
	var b strings.Builder
	if v.Resource != "" {
		b.WriteString(v.Resource)
		if v.Name != "" {
			b.WriteString("/" + v.Name)
		}
		if v.Namespace != "" {
			b.WriteString(" -n " + v.Namespace)
		}
		b.WriteString(" ")
	}
	word := "before "
	if v.After {
		word = "after "
	}
	return b.String() + word + v.Call.String()
}

// viewRule waits for the moment of a View.
type viewRule struct {
	View
	moment trigger
	at     Call // the call of the moment
}

func newViewRule(v View) viewRule { return viewRule{View: v, moment: newTrigger(Moment{Call: v.Call})} }

func (r *viewRule) arrive(index int, c Call, v *Verdict) {
	if r.Call != (Selector{}) && r.moment.arrive(c, v.Ticket) {
		r.at = c
		v.Marks = append(v.Marks, Mark{Rule: index, After: r.After})
	}
}

// past is what to show; nil for the present, or when the moment has not come.
func (r *viewRule) past(index int, cached bool) *Past {
	if !r.moment.passed {
		return nil
	}
	p := &Past{Rule: index, Cached: cached, text: r.View.String()}
	if r.Resource == "" {
		p.Group, p.Resource, p.Namespace, p.Name = r.at.Group, r.at.Resource, r.at.Namespace, r.at.Name
		return p
	}
	resource, group, has := strings.Cut(r.Resource, ".")
	p.Resource, p.Group, p.AnyGroup = resource, group, !has
	p.Namespace, p.Name = r.Namespace, r.Name
	return p
}
