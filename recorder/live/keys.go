package live

import (
	"cmp"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// keys tells which keys are reconciled most: their rates as a mean that forgets, of which only the highest are shown.
type keys struct {
	now  func() time.Time
	desc *prometheus.Desc

	mu    sync.Mutex
	rates map[key]rate
}

type key struct{ process, controller, namespace, name string }

// rate is a mean of reconciles a second, as of a time.
type rate struct {
	perSecond float64
	at        time.Time
}

const (
	maxKeys = 20
	// memory is after what time a reconcile weighs 1/e of what it did.
	memory = time.Minute
	// remembered bounds the keys whose rates are kept; the lowest are forgotten.
	remembered = 10_000
)

func newKeys(now func() time.Time) *keys {
	return &keys{
		now: now, rates: map[key]rate{},
		desc: prometheus.NewDesc("oprec_key_reconciles_per_second", "Reconciles of one key per second, a mean over about a minute, of the busiest keys.",
			[]string{"process", "controller", "namespace", "name"}, nil),
	}
}

// later is the rate at a later time without a further reconcile.
func (r rate) later(now time.Time) float64 {
	return r.perSecond * math.Exp(-float64(now.Sub(r.at))/float64(memory))
}

func (k *keys) count(one key) {
	now := k.now()
	k.mu.Lock()
	defer k.mu.Unlock()
	if _, known := k.rates[one]; !known && len(k.rates) >= remembered {
		k.forget(now)
	}
	k.rates[one] = rate{k.rates[one].later(now) + 1/memory.Seconds(), now}
}

// forget lets go of the lower half.
func (k *keys) forget(now time.Time) {
	for _, b := range k.busiest(now)[remembered/2:] {
		delete(k.rates, b.key)
	}
}

type busy struct {
	key
	rate float64
}

// busiest are the keys by their rates, highest first.
func (k *keys) busiest(now time.Time) []busy {
	all := make([]busy, 0, len(k.rates))
	for one, r := range k.rates {
		all = append(all, busy{one, r.later(now)})
	}
	slices.SortFunc(all, func(a, b busy) int {
		return cmp.Or(cmp.Compare(b.rate, a.rate), cmp.Compare(a.namespace, b.namespace), cmp.Compare(a.name, b.name),
			cmp.Compare(a.controller, b.controller), cmp.Compare(a.process, b.process))
	})
	return all
}

// Describe implements prometheus.Collector.
func (k *keys) Describe(out chan<- *prometheus.Desc) { out <- k.desc }

// Collect implements prometheus.Collector.
func (k *keys) Collect(out chan<- prometheus.Metric) {
	k.mu.Lock()
	all := k.busiest(k.now())
	k.mu.Unlock()
	for _, b := range all[:min(maxKeys, len(all))] {
		out <- prometheus.MustNewConstMetric(k.desc, prometheus.GaugeValue, b.rate, b.process, b.controller, b.namespace, b.name)
	}
}
