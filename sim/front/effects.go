package front

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"sort"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/opreplay/opreplay/sim"
	"github.com/opreplay/opreplay/sim/fault"
	"github.com/opreplay/opreplay/sim/store"
)

// commit is when the world's newest version became this one.
type commit struct {
	version uint64
	at      int64
}

// note notes when what has just been committed was.
func (d *Door) note() {
	if d.o.Store == nil {
		return
	}
	v := d.o.Store.ResourceVersion()
	if n := len(d.commits); n == 0 || d.commits[n-1].version < v {
		d.commits = append(d.commits, commit{v, d.o.World.Nanos()})
	}
}

// since is from when on an event could be on its way: since its commit, or since its watch began.
func (d *Door) since(e *exchange, ev store.Event) int64 {
	i := sort.Search(len(d.commits), func(i int) bool { return d.commits[i].version >= ev.ResourceVersion })
	if ev.Initial || i == len(d.commits) {
		return e.began
	}
	return max(e.began, d.commits[i].at)
}

// Begin says that the operator makes its first call: the times of a plan count from here.
func (d *Door) Begin() { d.soon(d.o.Faults.Begin()) }

// heed carries out what follows from something that has happened.
func (d *Door) heed(fx fault.Effect) error {
	d.expect(fx.Begun)
	if fx.Released {
		d.release()
	}
	return d.carryOut(fx.Actions)
}

// soon does it in a step of its own that is due now: the processes go as far as they can first.
func (d *Door) soon(fx fault.Effect) {
	d.expect(fx.Begun)
	if fx.Released {
		d.release()
	}
	if len(fx.Actions) > 0 {
		d.after(0, sim.Item{
			Kind: "fault", Subject: fx.Actions[0].String(), Rule: fx.Actions[0].Fault,
			Apply: func() error { return d.carryOut(fx.Actions) },
		})
	}
}

func (d *Door) expect(begun []fault.Deadline) {
	for _, deadline := range begun {
		d.after(deadline.After, sim.Item{Kind: "fault", Subject: deadline.What, Rule: deadline.Fault, Apply: func() error {
			return d.heed(d.o.Faults.Expire(deadline))
		}})
	}
}

// carryOut carries out actions. It must not be called while the door goes through its connections or streams.
func (d *Door) carryOut(actions []fault.Action) error {
	for _, a := range actions {
		if err := d.do(a); err != nil {
			return fmt.Errorf("%s: %w", a, err)
		}
	}
	return nil
}

func (d *Door) do(a fault.Action) error {
	switch a.Do {
	case fault.DoCut:
		d.cut(a)
	case fault.DoStart:
		d.show(a)
	case fault.DoCurrent:
		if d.shown[a.Process] != a.Fault {
			return nil
		}
		d.show(a)
		d.Committed()
	case fault.DoAlter:
		if err := d.alter(a); err != nil {
			return err
		}
	case fault.DoKill:
		defer d.Disconnect(a.Process)
	default: // the world's alone
	}
	return d.o.Act(a)
}

// alterer is who makes the changes to objects that a plan wants.
const alterer = "kubernetes-admin"

// alter changes an object as an outsider does.
func (d *Door) alter(a fault.Action) error {
	outsider := d.Outsider(alterer, "system:masters")
	code, object, err := exchangeOf(outsider, http.MethodGet, a.Path, nil)
	if err != nil {
		return err
	}
	if code != http.StatusOK {
		return &fault.Unfit{Fault: a.Fault, Text: fmt.Sprintf("there is no %s in the run when it is to be changed", a.Path)}
	}
	if object, err = a.Alter(object); err != nil {
		return err
	}
	code, answer, err := exchangeOf(outsider, http.MethodPut, a.Path, object)
	if err != nil {
		return err
	}
	if code != http.StatusOK {
		var s metav1.Status
		_ = json.Unmarshal(answer, &s) // what is no Status has no message
		return &fault.Unfit{Fault: a.Fault, Text: fmt.Sprintf("the API server does not take the change (%d): %s", code, s.Message)}
	}
	return nil
}

// exchangeOf makes a call and reads its answer.
func exchangeOf(via http.RoundTripper, method, path string, body []byte) (code int, answer []byte, err error) {
	q, err := http.NewRequestWithContext(context.Background(), method, "http://world"+path, bytes.NewReader(body))
	if err != nil {
		return 0, nil, err
	}
	q.Header.Set("Content-Type", "application/json")
	q.Header.Set("Accept", "application/json")
	q.Header.Set("User-Agent", "kubectl")
	resp, err := via.RoundTrip(q)
	if err != nil {
		return 0, nil, err
	}
	defer func() { _ = resp.Body.Close() }()
	answer, err = io.ReadAll(resp.Body)
	return resp.StatusCode, answer, err
}

// cut ends watches.
func (d *Door) cut(a fault.Action) {
	for _, e := range slices.Clone(d.streams) {
		info := e.stream.Info()
		if !a.Matches(fault.Event{
			Client: e.link.client.Process, Stream: e.lane(),
			Group: info.Resource.Group, Version: e.call.Version, Resource: info.Resource.Resource,
		}) {
			continue
		}
		if a.Gone && d.o.Store != nil {
			d.o.Store.Forget(e.link.client.Process, info.Resource)
		}
		if a.Broken {
			d.forget(e)
			d.sever(e)
			continue
		}
		d.endStream(e)
	}
}

// remember keeps the versions that a verdict wants remembered.
func (d *Door) remember(v fault.Verdict, after bool) {
	for _, m := range v.Marks {
		if m.After == after && d.o.Store != nil {
			d.versions[m.Rule] = d.o.Store.ResourceVersion()
		}
	}
}

// show has a process shown the past that an action says, or the present.
func (d *Door) show(a fault.Action) {
	if d.o.Store == nil {
		return
	}
	delete(d.shown, a.Process)
	var views []store.View
	if a.View != nil {
		d.shown[a.Process] = a.Fault
		views = d.views(a)
		if len(views) == 0 {
			d.tell("the view %q of %s shows nothing but the present: nothing of it has changed since", a.View, a.Process)
		}
	}
	d.o.Store.SetViews(a.Process, views...)
}

func (d *Door) views(a fault.Action) (views []store.View) {
	then := d.versions[a.View.Rule]
	for _, gr := range d.o.Store.Resources() {
		if !a.View.Means(gr.Group, gr.Resource) {
			continue
		}
		version := then
		if a.View.Name != "" {
			last, changed := d.o.Store.LastSame(gr, a.View.Namespace, a.View.Name, then)
			if !changed {
				continue
			}
			version = last
		}
		views = append(views, store.View{Resource: gr, ResourceVersion: version, Cached: a.View.Cached, Shown: func(consistent bool) {
			if consistent {
				d.tell("%s was shown the past of %s where it asked for the most recent state, which a real API server does not do; with \"reads: cached\" such reads are true", a.Process, gr)
			}
		}})
	}
	return views
}

// tell notes something worth knowing, once. A handler may call it: it runs while the world waits for it.
func (d *Door) tell(format string, args ...any) {
	if text := fmt.Sprintf(format, args...); !slices.Contains(d.notes, text) {
		d.notes = append(d.notes, text)
	}
}

// Notes are things worth knowing about the run so far, such as views of the past that no real API server gives.
func (d *Door) Notes() []string { return d.notes }
