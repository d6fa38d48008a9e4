package analysis

import (
	"strings"
	"testing"
	"time"
)

func TestCircuitBreakerThatNeverCloses(t *testing.T) {
	c := newCluster(t, "op")
	s := site(c, "front")
	for range 20 {
		c.log("op", "info", "Skipping, circuit breaker is open", fieldsOf(s, c.seq))
		c.sleep(10 * time.Second)
	}
	f := c.analyze(NewCircuitBreaker()).only(t, "circuit-breaker")
	if f.Objects[0].Name != "front" || !strings.Contains(f.What, "20 lines") || f.Statistics[0].Value != 190 {
		t.Errorf("%+v", f)
	}
}

func TestCircuitBreakersThatClose(t *testing.T) {
	c := newCluster(t, "op")
	s := site(c, "front")
	for range 10 {
		c.log("op", "error", "Call failed", fieldsOf(s, c.seq, m{"error": "circuit breaker is open"}))
		c.sleep(20 * time.Second)
		c.log("op", "error", "Call failed", fieldsOf(s, c.seq, m{"error": "circuit breaker is open"}))
		c.sleep(20 * time.Second)
		c.log("op", "info", "Circuit half-open, trying once", fieldsOf(s, c.seq))
	}
	for range 3 { // has just opened
		c.log("op", "error", "Call failed", fieldsOf(s, c.seq, m{"error": "circuit breaker is open"}))
		c.sleep(20 * time.Second)
	}
	c.log("op", "info", "Short circuit detection enabled, opening port", nil)
	c.analyze(NewCircuitBreaker()).none(t)
}
