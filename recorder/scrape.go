package recorder

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"
	"unicode"

	"github.com/opreplay/opreplay/internal/cli"
	"github.com/opreplay/opreplay/traces"
)

// Scrape is which metrics endpoints are scraped into the trace, as Prometheus would. The zero Scrape is none.
type Scrape struct {
	// URLs are the operator's endpoints, http or https; one without a path is asked for /metrics.
	URLs []string
	// Interval is from one scrape to the next; 0 means DefaultScrapeInterval.
	Interval time.Duration
	// TokenFile has a bearer token, as an endpoint wants that asks the API server who may read it. It is read anew for
	// each scrape, for tokens of pods are replaced. "" sends none.
	TokenFile string
	// Insecure takes any certificate of an https endpoint: those of controller-runtime make up their own.
	Insecure bool
}

// DefaultScrapeInterval is how often an endpoint is scraped.
const DefaultScrapeInterval = 15 * time.Second

const (
	leastInterval  = 100 * time.Millisecond
	scrapeTimeout  = 10 * time.Second // Prometheus' own default
	lastTimeout    = 2 * time.Second  // of the one at the end, for which somebody waits
	untilItAnswers = time.Second      // between attempts at an endpoint that has not answered yet
)

// check refuses what can't be scraped, before anything is made.
func (o *Scrape) check() error {
	if o.Interval < 0 || o.Interval > 0 && o.Interval < leastInterval {
		return cli.Usagef("--scrape-interval %s: want %s or more, such as 15s", o.Interval, leastInterval)
	}
	for i, text := range o.URLs {
		u, err := endpoint(text)
		if err != nil {
			return err
		}
		if slices.Contains(o.URLs[:i], text) {
			return cli.Usagef("--scrape %s: it is there twice", text)
		}
		if o.TokenFile != "" && u.Scheme == "http" && !isLoopback(u.Hostname()) {
			return cli.Usagef("--scrape %s: a token is sent over https alone, or to this machine; leave out --scrape-token-file, or use https", text)
		}
	}
	if o.TokenFile == "" {
		return nil
	}
	if _, err := readToken(o.TokenFile); err != nil {
		return cli.Usagef("--scrape-token-file %s: %w", o.TokenFile, err)
	}
	return nil
}

// readToken is what a token's file holds. It is read anew for each scrape, for tokens expire.
func readToken(path string) (string, error) {
	const most = 64 << 10
	info, err := os.Stat(path)
	switch {
	case err != nil:
		return "", pathless(err)
	case !info.Mode().IsRegular():
		return "", errors.New("want a regular file: it is read anew for each scrape")
	case info.Size() > most:
		return "", fmt.Errorf("it has more than %d KiB, which no token has", most>>10)
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return "", pathless(err)
	}
	token := strings.TrimSpace(string(text))
	if token == "" || strings.ContainsFunc(token, unicode.IsControl) {
		return "", errors.New("want one line, the token")
	}
	return token, nil
}

// endpoint is the URL to ask.
func endpoint(text string) (*url.URL, error) {
	const want = "want a URL such as http://127.0.0.1:8080/metrics"
	u, err := url.Parse(text)
	switch {
	case err != nil && strings.Contains(text, "@"): // there may be a password in it
		return nil, cli.Usagef("--scrape: %w; %s", urlless(err), want)
	case err != nil:
		return nil, cli.Usagef("--scrape %s: %w; %s", text, urlless(err), want)
	case u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "":
		return nil, cli.Usagef("--scrape %s: %s", u.Redacted(), want)
	case u.User != nil:
		return nil, cli.Usagef("--scrape %s: names and passwords on a command line are everybody's to read; --scrape-token-file takes a token", u.Redacted())
	}
	if u.Path == "" {
		u.Path = "/metrics"
	}
	return u, nil
}

func isLoopback(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

// scraping is the endpoints of a recording, each with a goroutine.
type scraping struct {
	targets []*target
	cancel  context.CancelFunc
	wg      sync.WaitGroup
}

// target is one endpoint.
type target struct {
	s         *session
	url       *url.URL
	shown     string // the URL, without what may be secret in it
	process   string // of its rows
	instance  string // HOST:PORT, as Prometheus labels what it scrapes
	tokenFile string
	interval  time.Duration
	client    *http.Client

	series  map[string]*series // as they were at the last scrape
	scrapes int64              // that were answered
	began   time.Time
	outage  *outage // of failures since the last answer; nil for none
	refusal error   // the last, while it has never answered
	told    bool    // the user knows of a refusal
}

// outage is scrapes that failed, one after the other.
type outage struct {
	from, to time.Time
	n        int
	why      error
}

// scrape begins to scrape into rows of PROCESS; "" names each by its endpoint. It is nil where nothing is to be scraped.
func (s *session) scrape(process string) *scraping {
	o := &s.o.Scrape
	if len(o.URLs) == 0 {
		return nil
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(s.ctx)) // end says when
	c := &scraping{cancel: cancel}
	for _, text := range o.URLs {
		u, _ := endpoint(text) // check has seen it
		t := &target{
			s: s, url: u, shown: redactedURL(u.String()), process: process, instance: instanceOf(u), tokenFile: o.TokenFile, interval: o.Interval,
			client: scrapeClient(o.Insecure), series: map[string]*series{}, began: s.now(),
			refusal: errors.New("the recording ended before"),
		}
		if t.process == "" {
			t.process = t.instance
		}
		if t.interval == 0 {
			t.interval = DefaultScrapeInterval
		}
		c.targets = append(c.targets, t)
		c.wg.Go(func() { t.run(ctx) })
	}
	return c
}

// instanceOf is Prometheus' label of an endpoint: its host with its port, the scheme's own if none is said.
func instanceOf(u *url.URL) string {
	port := u.Port()
	switch {
	case port != "":
	case u.Scheme == "https":
		port = "443"
	default:
		port = "80"
	}
	return net.JoinHostPort(u.Hostname(), port)
}

// end ends all scrapes, after one LAST if that is wanted: it is not of an operator that is gone.
func (c *scraping) end(last bool) {
	if c == nil {
		return
	}
	c.cancel()
	c.wg.Wait()
	for _, t := range c.targets {
		c.wg.Go(func() { t.end(last) })
	}
	c.wg.Wait()
}

// run scrapes until CTX ends.
func (t *target) run(ctx context.Context) {
	for {
		t.once(ctx, min(scrapeTimeout, t.interval))
		wait := t.interval
		if t.scrapes == 0 {
			wait = min(wait, untilItAnswers)
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(wait):
		}
	}
}

// once is one scrape. One that CTX broke off is none.
func (t *target) once(ctx context.Context, timeout time.Duration) {
	samples, err := t.ask(ctx, timeout)
	switch {
	case err == nil:
		t.answered(samples)
	case ctx.Err() != nil:
	case t.scrapes == 0:
		t.notYet(err)
	default:
		t.failed(err)
	}
}

func (t *target) answered(samples []sample) {
	t.scrapes++
	t.over()
	t.write(samples)
}

// notYet: it has never answered. An operator that starts does not listen yet, which is not worth a word.
func (t *target) notYet(err error) {
	if !t.told && !errors.Is(err, syscall.ECONNREFUSED) {
		t.s.o.note("scrape %s: %v; trying again", t.shown, err)
		t.told = true
	}
	if !errors.Is(err, syscall.ECONNREFUSED) {
		t.missed(err)
	}
	t.refusal = err
}

// failed: it has answered before.
func (t *target) failed(err error) {
	if t.outage == nil {
		t.s.o.note("scrape %s: %v", t.shown, err)
	}
	now := t.missed(err)
	t.append(t.up(now.UnixNano(), 0))
}

// missed counts a scrape that failed just now.
func (t *target) missed(err error) (now time.Time) {
	now = t.s.now()
	if t.outage == nil {
		t.outage = &outage{from: now.UTC()}
	}
	t.outage.n, t.outage.to, t.outage.why = t.outage.n+1, now.UTC(), err
	return now
}

// over puts the failures that are over into the trace.
func (t *target) over() {
	if g := t.outage; g != nil {
		t.outage = nil
		t.lose(g.from, g.to, fmt.Sprintf("%s of %s failed: %v", count(int64(g.n), "scrape", "scrapes"), t.shown, g.why))
	}
}

func (t *target) lose(from, to time.Time, reason string) {
	t.s.lose(traces.Loss{Source: string(traces.TableMetrics), From: from, To: to, Count: -1, Reason: reason})
}

// end is the LAST scrape, if it is answered, and what has been lost.
func (t *target) end(last bool) {
	if last {
		t.last()
	}
	t.client.CloseIdleConnections()
	switch {
	case t.scrapes == 0:
		t.lose(t.began.UTC(), t.s.now().UTC(), fmt.Sprintf("%s was never scraped: %v", t.shown, t.refusal))
		t.s.o.note("scrape %s: it has never answered: %v", t.shown, t.refusal)
	case last || t.outage != nil && t.outage.n > 1:
		t.over()
	} // else: one failure at an operator's own end is that end
}

// last is the last scrape. It may be that the operator is ending already: ^C reaches it too.
func (t *target) last() {
	switch samples, err := t.ask(context.WithoutCancel(t.s.ctx), lastTimeout); {
	case err == nil:
		t.answered(samples)
	case t.scrapes == 0:
		t.refusal = err
	}
}
