package analysis

import (
	"slices"
	"testing"
	"time"
)

// Places over time are counted in equal spans, which grow with the time that they take; none is lost.
func TestPlacesOverTime(t *testing.T) {
	var p places
	const every = int64(10 * time.Millisecond)
	for i := range int64(8) {
		p.add(i, 1000+i*every, "x", 0, 0)
	}
	if p.evidence().Over != nil {
		t.Error("counts over time, though the items have all places")
	}
	for i := int64(8); i < 100; i++ {
		p.add(i, 1000+i*every, "x", 0, 0)
	}
	p.add(100, 1000+1999*int64(time.Millisecond), "x", 0, 0) // 2 s: spans of 1 ms have doubled to 32 ms
	over := p.evidence().Over
	want := make([]int64, 63)
	for i := range int64(100) {
		want[i*10/32]++
	}
	want[1999/32]++
	if !slices.Equal(over, want) {
		t.Errorf("over time %v\nwant      %v", over, want)
	}
}

// Words of the trace are no formats, whatever is in them.
func TestPlacesSayWordsOfTheTrace(t *testing.T) {
	c := newCluster(t, "op%d")
	r := record(c, "www")
	c.delete("kubectl", r)
	c.quiet(15 * time.Second)
	f := c.analyze(NewFinalizerHang()).only(t, "finalizer-hang")
	if last := f.Evidence.Items[len(f.Evidence.Items)-1].What; last != "the deletion reached op%d" {
		t.Errorf("%q", last)
	}
	var p places
	p.say(1, 1, "100%d of %s")
	if what := p.evidence().Items[0].What; what != "100%d of %s" {
		t.Errorf("%q", what)
	}
}
