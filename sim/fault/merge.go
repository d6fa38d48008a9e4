package fault

// Merge has a client never see the states between two events of an object, the first one included.
//
// On a real cluster: the events of one watch are never merged; etcd has every version, and a watch shows each of
// them in order. But a client whose watch falls behind and then ends, and whose version is gone by the time at
// which it comes back, has to list anew, and a list shows the present only. So a Merge is: the watches of the
// resource are held back before From; when To has been committed they end, and the version from which they could
// be resumed is gone. The client sees the end of it in its next list: an object that was deleted and made
// again looks to it like one that was changed, but for its uid.
type Merge struct {
	// Watch is the resource.
	Watch string
	// Client is the process that does not see it; "" is any, "operator" the operator.
	Client string
	// From is the first event that is not seen; To is the last one.
	From, To Selector
}

// Kind implements Fault.
func (m *Merge) Kind() string { return "merge" }

// String implements Fault.
func (m *Merge) String() string {
	l := line{kind: m.Kind()}
	l.text("watch", m.Watch)
	l.text("client", m.Client)
	l.text("from", m.From.String())
	l.text("to", m.To.String())
	return l.String()
}

func parseMerge(f *fields) (Fault, error) {
	m := &Merge{}
	for _, err := range []error{
		f.word("watch", &m.Watch),
		f.word("client", &m.Client),
		f.selector("from", ParseEvent, &m.From),
		f.selector("to", ParseEvent, &m.To),
	} {
		if err != nil {
			return nil, err
		}
	}
	if m.Watch == "" || m.Watch == "*" {
		return nil, f.errorAt(f.take("watch"), "merge needs watch, the one resource whose states are not seen")
	}
	if m.From == (Selector{}) || m.To == (Selector{}) {
		return nil, f.errorAt(nil, "merge needs from and to, the first and the last event that are not seen")
	}
	return m, nil
}

// mergeRule is a Merge in one run.
type mergeRule struct {
	base
	*Merge
	from, to counter
	phase    phase
	began    int64           // resourceVersion of the first event
	held     map[string]bool // streams that wait before it
}

func (m *Merge) rule(b base) rule {
	return &mergeRule{base: b, Merge: m, from: counter{sel: m.From}, to: counter{sel: m.To}, held: map[string]bool{}}
}

func (r *mergeRule) means(e Event) bool {
	return matchResource(r.Watch, e.Group, e.Resource) && matchClient(r.Client, e.Client, r.m.operator)
}

func (r *mergeRule) deliver(e Event, d *Delivery) {
	if r.phase == over || !r.means(e) {
		return
	}
	// The stream that waits here may be one that was resumed.
	if r.phase == waiting && r.from.event(e) {
		r.phase, r.began = lasting, e.ResourceVersion
	}
	if r.phase == lasting && e.ResourceVersion >= r.began {
		r.held[e.Stream] = true
		d.Held, d.Ahead = true, true
		d.Rules = append(d.Rules, r.line)
	}
	r.behind(e, &d.Effect)
}

func (r *mergeRule) behind(e Event, fx *Effect) {
	// Without a number, to means the first such event after from.
	if r.phase == over || !r.means(e) || r.To.N == 0 && (r.phase != lasting || e.ResourceVersion <= r.began) {
		return
	}
	if !r.to.event(e) || r.phase != lasting {
		return
	}
	r.phase = over
	streams := r.held
	r.act(fx, Action{Do: DoCut, Gone: true, cut: func(e Event) bool { return streams[e.Stream] }})
}

func (r *mergeRule) closed(stream string) {
	if r.phase == lasting {
		delete(r.held, stream)
	}
}

func (r *mergeRule) report() []Unmatched {
	switch {
	case r.phase == waiting && r.to.seen >= max(r.To.N, 1) && r.To.N > 0:
		return []Unmatched{r.unmet("to", r.To, 0, "came before from "+quote(r.From.String()))}
	case r.phase == waiting:
		return []Unmatched{r.unmet("from", r.From, r.from.seen, "")}
	case r.phase == lasting:
		return []Unmatched{r.unmet("to", r.To, r.to.seen, "")}
	}
	return nil
}
