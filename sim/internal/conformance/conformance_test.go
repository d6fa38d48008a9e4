package conformance

import (
	"flag"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/opreplay/opreplay/internal/livecluster"
)

var (
	seed      = flag.Uint64("seed", 1, "of the generated operations")
	ops       = flag.Int("operations", 400, "how many operations to generate")
	firstSeq  = flag.Int("first", 0, "the number of the first sequence")
	only      = flag.String("only", "", "sequences of this scenario only: "+strings.Join(Scenarios(), ", "))
	replay    = flag.String("sequence", "", "run the sequence in this file and nothing else")
	tries     = flag.Int("shrink", 0, "make failing sequences shorter, with at most so many runs each")
	tableFile = flag.String("table", "", "write the table into this file, between its marks")
	failures  = flag.String("failures", "", "write failing sequences into this folder")
	door      = flag.Bool("door", false, "ask ours as the processes of a world do: on byte streams, through sim/front")
	answers   = flag.Bool("answers", false, "print each operation with the code that the real server answered")
	inCBOR    = flag.Bool("cbor", false, "ask for most in CBOR, of servers that have it on")
	most      = flag.Int("most", 20, "how many failing sequences to print")
)

func TestMain(m *testing.M) {
	flag.Parse()
	code := m.Run()
	livecluster.StopShared()
	os.Exit(code)
}

func plain(rt http.RoundTripper) *http.Client {
	return &http.Client{Transport: rt, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
}

// TestConformance asks both servers the same and compares the answers: what a seed makes, or the sequence of a file
// (-sequence FILE).
func TestConformance(t *testing.T) {
	if *replay != "" {
		runAgain(t, *replay)
		return
	}
	p := pair(t, *door, *inCBOR)
	table := &Table{Seed: *seed}
	begin := time.Now()
	defer func() {
		t.Logf("%v\n%s", time.Since(begin).Round(time.Second), table.Markdown())
		if forms := table.Forms(); forms != "" {
			t.Logf("the ways in which answers differ:\n%s", forms)
		}
	}()
	shown, told := 0, 0
	for n := *firstSeq; table.All().Operations < *ops; n++ {
		if all := table.All(); all.Operations/progressEach > told {
			told = all.Operations / progressEach
			t.Logf("%d of %d operations, %d differ without an explanation", all.Operations, *ops, all.Unexplained)
		}
		s := Generate(*seed, n, *only)
		if *inCBOR {
			s = InCBOR(s)
		}
		outcomes, err := p.Run(t.Context(), s)
		if err != nil {
			t.Fatalf("sequence %d: %v\n%s", n, err, s)
		}
		table.Add(s, outcomes)
		if *answers {
			for _, o := range outcomes {
				t.Logf("%d %s %d %s %s %s %.200s%s", o.Real.Code, s.Name, o.Op.ID, o.Op.Verb, o.Op.Method, o.Op.Path, o.Op.Body, o.Op.Edit)
			}
		}
		if failed(outcomes) {
			t.Fail()
			if shown++; shown <= *most {
				t.Log(describe(t, p, s, outcomes))
			}
		}
	}
	if *tableFile != "" {
		if err := writeTable(*tableFile, table); err != nil {
			t.Fatal(err)
		}
	}
}

// sequenceOf reads a file.
func sequenceOf(t *testing.T, file string) *Sequence {
	t.Helper()
	f, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close() //nolint:errcheck // read only
	s, err := Parse(file, f)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// runAgain runs the sequence of a file and says what both servers answered.
func runAgain(t *testing.T, file string) {
	t.Helper()
	s := sequenceOf(t, file)
	p := pair(t, *door, *inCBOR)
	outcomes, err := p.Run(t.Context(), s)
	if err != nil {
		t.Fatal(err)
	}
	for _, o := range outcomes {
		t.Logf("%d %s %s\nreal: %d %s\nours: %d %s", o.Op.ID, o.Op.Method, o.Op.Path, o.Real.Code, o.Real.Body, o.Ours.Code, o.Ours.Body)
		for i := range max(len(o.RealEvents), len(o.OursEvents)) {
			for who, events := range map[string][]any{"real": o.RealEvents, "ours": o.OursEvents} {
				if i < len(events) {
					t.Logf("%s: %d: %s", who, i, text(events[i]))
				}
			}
		}
	}
	if failed(outcomes) {
		t.Error(describe(t, p, s, outcomes))
	}
}

// progressEach is how many operations there are between two lines about them.
const progressEach = 500

// TestThroughTheDoor asks ours as the processes of a world do.
func TestThroughTheDoor(t *testing.T) {
	p := pair(t, true, false)
	for n := range throughDoorSequences {
		askBoth(t, p, Generate(*seed, n, ""))
	}
	for _, file := range regressions(t) {
		t.Run(filepath.Base(file), func(t *testing.T) { askBoth(t, p, sequenceOf(t, file)) })
	}
}

// TestCBOR: CBOR is behind a feature gate; with it on, objects are sent and answered in it.
func TestCBOR(t *testing.T) {
	p := pair(t, false, true)
	seen := 0
	for n := range cborSequences {
		for _, o := range askBoth(t, p, InCBOR(Generate(*seed, n, ""))) {
			if o.Real.Code/100 == 2 && o.Real.Header.Get("Content-Type") == cborType && o.Real.Object != nil {
				seen++
			}
		}
	}
	if seen == 0 {
		t.Error("the real server has answered nothing in CBOR")
	}
}

// cborSequences is how many sequences are asked in CBOR in make test.
const cborSequences = 6

// askBoth runs a sequence; what differs is an error.
func askBoth(t *testing.T, p *Pair, s *Sequence) []*Outcome {
	t.Helper()
	outcomes, err := p.Run(t.Context(), s)
	if err != nil {
		t.Fatalf("sequence %d: %v\n%s", s.Number, err, s)
	}
	if failed(outcomes) {
		t.Error(describe(t, p, s, outcomes))
	}
	return outcomes
}

// TestBookmarks: of watches that end after some seconds all is compared, the bookmark before the end included, and that
// there is none when nothing has happened.
func TestBookmarks(t *testing.T) {
	outcomes := askBoth(t, pair(t, true, false), sequenceOf(t, "testdata/door/bookmarks"))
	seen := 0
	for _, o := range outcomes {
		for _, ev := range o.RealEvents {
			if m, _ := ev.(map[string]any); m["type"] == "BOOKMARK" && !initialEnd(m) {
				seen++
			}
		}
	}
	if seen == 0 {
		t.Error("the real server has sent no bookmark: there was nothing to compare")
	}
}

// throughDoorSequences is how many sequences are asked through the door in make test.
const throughDoorSequences = 6

// TestRegressions runs the sequences under testdata: each once differed.
func TestRegressions(t *testing.T) {
	p := pair(t, *door, false)
	for _, file := range regressions(t) {
		t.Run(filepath.Base(file), func(t *testing.T) { askBoth(t, p, sequenceOf(t, file)) })
	}
}

func regressions(t *testing.T) []string {
	t.Helper()
	files, err := filepath.Glob("testdata/*")
	if err != nil || len(files) == 0 {
		t.Fatalf("no sequences: %v", err)
	}
	return slices.DeleteFunc(files, func(f string) bool { return filepath.Base(f) == "door" }) // TestBookmarks
}

func failed(outcomes []*Outcome) bool {
	for _, o := range outcomes {
		if len(o.Differences) > 0 {
			return true
		}
	}
	return false
}

// describe is what people are told of a failing sequence.
func describe(t *testing.T, p *Pair, s *Sequence, outcomes []*Outcome) string {
	var b strings.Builder
	var all []Difference
	fmt.Fprintf(&b, "sequence %d of seed %d (%s):\n", s.Number, s.Seed, s.Name)
	for _, o := range outcomes {
		all = append(all, o.Differences...)
		if len(o.Differences) == 0 {
			continue
		}
		fmt.Fprintf(&b, "  %d %s %s %s\n", o.Op.ID, o.Op.Verb, o.Op.Method, o.Op.Path)
		if len(o.Op.Body)+len(o.Op.Edit) > 0 {
			fmt.Fprintf(&b, "    %.400s %s\n", o.Op.Body, o.Op.Edit)
		}
		for i, d := range o.Differences {
			if i == 6 {
				fmt.Fprintf(&b, "    … %d more\n", len(o.Differences)-i)
				break
			}
			fmt.Fprintf(&b, "    %s\n", d)
		}
	}
	if *tries > 0 {
		small, err := p.Shrink(t.Context(), s, all, *tries)
		if err != nil {
			fmt.Fprintf(&b, "shrinking ended: %v\n", err)
		}
		s = small
	}
	if *failures != "" {
		path := filepath.Join(*failures, fmt.Sprintf("%d-%d.txt", s.Seed, s.Number))
		if err := os.WriteFile(path, []byte(s.String()), 0o600); err != nil {
			t.Error(err)
		}
		fmt.Fprintf(&b, "go test ./sim/internal/conformance -run TestConformance -v -args -sequence %s\n", path)
		return b.String()
	}
	fmt.Fprintf(&b, "to run it again, put these lines into a file: go test ./sim/internal/conformance -run TestConformance -v -args -sequence FILE\n%s", s)
	return b.String()
}

// The marks between which the generated parts of a page stand.
const (
	beginTable, endTable = "<!-- table: make conformance -->\n", "<!-- end of table -->\n"
	beginKnown, endKnown = "<!-- known differences -->\n", "<!-- end of known differences -->\n"
)

func writeTable(file string, table *Table) error {
	page, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	text, err := between(string(page), beginTable, endTable, table.Markdown())
	if err != nil {
		return fmt.Errorf("%s: %w", file, err)
	}
	return os.WriteFile(file, []byte(text), 0o644) //nolint:gosec // a page
}

// between puts a text between two marks of a page.
func between(page, begin, end, text string) (string, error) {
	before, rest, ok := strings.Cut(page, begin)
	_, after, ok2 := strings.Cut(rest, end)
	if !ok || !ok2 {
		return "", fmt.Errorf("want the marks %q and %q, between which something goes", strings.TrimSpace(begin), strings.TrimSpace(end))
	}
	return before + begin + text + end + after, nil
}

// TestKnownDifferences shows each of them. One that is no more must go from the list.
func TestKnownDifferences(t *testing.T) {
	p := pair(t, *door, false)
	p.Known = nil
	for _, k := range KnownDifferences {
		t.Run(k.Name, func(t *testing.T) {
			s, err := Parse(k.Name, strings.NewReader(k.Shows))
			if err != nil {
				t.Fatal(err)
			}
			outcomes, err := p.Run(t.Context(), s)
			if err != nil {
				t.Fatal(err)
			}
			seen := false
			for _, o := range outcomes {
				for _, d := range o.Differences {
					if k.Match(o, d) {
						seen = true
					} else {
						t.Errorf("operation %d differs in another way: %s", o.Op.ID, d)
					}
				}
			}
			if !seen {
				t.Error("there is no such difference any more: take it off the list")
			}
		})
	}
}

// TestPageListsKnownDifferences keeps docs/fidelity.md true; -table writes it.
func TestPageListsKnownDifferences(t *testing.T) {
	const file = "../../../docs/fidelity.md"
	page, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	want, err := between(string(page), beginKnown, endKnown, KnownMarkdown())
	if err != nil {
		t.Fatalf("%s: %v", file, err)
	}
	if *tableFile != "" {
		if err := os.WriteFile(file, []byte(want), 0o644); err != nil { //nolint:gosec // a page
			t.Fatal(err)
		}
	} else if want != string(page) {
		t.Errorf("%s lists other known differences than known.go: between the marks it should say\n%s", file, KnownMarkdown())
	}
}

// TestWebhooksAreCalled: what a sequence compares of webhooks is there to be compared.
func TestWebhooksAreCalled(t *testing.T) {
	outcomes := askBoth(t, pair(t, *door, false), sequenceOf(t, "testdata/webhooks"))
	for id, want := range map[int]string{5: `CREATE {\"group\":\"\",\"resource\":\"configmaps\",\"version\":\"v1\"} a/`, 6: `\"operation\":\"CREATE\"`, 7: "UPDATE"} {
		if body := string(outcomes[id-1].Real.Body); !strings.Contains(body, want) {
			t.Errorf("operation %d: the real server's answer has no %s: %s", id, want, body)
		}
	}
}
