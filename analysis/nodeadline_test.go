package analysis

import (
	"strings"
	"testing"
	"time"
)

// A call that waits long is told apart from a server that is slow for all.
func TestLongCallAmongOthers(t *testing.T) {
	for name, took := range map[string]time.Duration{"fast": 20 * time.Millisecond, "slow": 40 * time.Second} {
		c := newCluster(t, "op")
		s := site(c, "front")
		for i := range 21 {
			k := c.begin("op", "update", "", s)
			c.sleep(took + time.Duration(i%7)*took/20)
			if i == 20 && name == "fast" {
				c.sleep(45 * time.Second)
			}
			k.commit(func(o m) { o["spec"] = m{"n": i} })
		}
		f := c.analyze(NewNoDeadline()).only(t, "no-deadline")
		z := f.statistic(t, "longest beyond its calls")
		if (z.Value >= outlier) != (name == "fast") || strings.Contains(f.Cause, "other calls take as long") != (name == "slow") {
			t.Errorf("others are %s: %+v\n%s", name, z, f.Cause)
		}
	}
}
