package oplog

import (
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
)

func TestParse(t *testing.T) {
	type want struct{ Level, Message, Fields string }
	for _, c := range []struct {
		name, line string
		want       want
	}{
		{
			"zap console, whole", "2026-11-30T11:01:48Z\tINFO\tsetup\tcmd/main.go:91\tstarting manager\t{\"version\": \"v1\", \"n\": 3}",
			want{Info, "starting manager", `{"logger":"setup","caller":"cmd/main.go:91","version":"v1","n":3}`},
		},
		{"zap console, message only", "2026-11-30T11:01:48.123+0100\tDEBUG\tready", want{Debug, "ready", ""}},
		{
			"zap console, caller and no logger", "1.7644e+09\tWARN\tpkg/x.go:7\tslow",
			want{Warn, "slow", `{"caller":"pkg/x.go:7"}`},
		},
		{
			"zap console, message with a tab", "2026-11-30T11:01:48Z\tERROR\tctl\tpkg/x.go:7\tone\ttwo",
			want{Error, "one\ttwo", `{"logger":"ctl","caller":"pkg/x.go:7"}`},
		},
		{
			"zap console, coloured", "2026-11-30T11:01:48Z\t\x1b[31mERROR\x1b[0m\tReconciler error\t{\"error\": \"no\"}",
			want{Error, "Reconciler error", `{"error":"no"}`},
		},
		{
			"zap JSON", `{"level":"error","ts":"2026-11-30T11:01:48Z","logger":"controller","msg":"Reconciler error","controller":"rabbit","namespace":"a","error":"x < y"}`,
			want{Error, "Reconciler error", `{"logger":"controller","controller":"rabbit","namespace":"a","error":"x < y"}`},
		},
		{
			"zap JSON, V level and a key twice", `{"level":"Level(-2)","ts":1764500508.1,"msg":"m","name":"a","k":1,"name":"b"}`,
			want{Debug, "m", `{"name":"b","k":1}`},
		},
		{
			"slog JSON", `{"time":"2026-11-30T11:01:48.5Z","level":"WARN","msg":"slow","took":{"ms":12.50}}`,
			want{Warn, "slow", `{"took":{"ms":12.50}}`},
		},
		{"slog JSON, level between", `{"time":"x","level":"ERROR+4","msg":"m"}`, want{Error, "m", ""}},
		{"zerolog", `{"level":"info","time":1764500508,"message":"up"}`, want{Info, "up", ""}},
		{"klog JSON", `{"ts":1764500508.1,"caller":"a/b.go:3","msg":"Got","v":4}`, want{Info, "Got", `{"caller":"a/b.go:3","v":4}`}},
		{"klog JSON error", `{"ts":1.1,"caller":"a/b.go:3","msg":"No","err":"gone"}`, want{Error, "No", `{"caller":"a/b.go:3","err":"gone"}`}},
		{
			"klog", "I1130 11:01:48.000123   12345 leaderelection.go:258] successfully acquired lease default/op",
			want{Info, "successfully acquired lease default/op", `{"caller":"leaderelection.go:258"}`},
		},
		{
			"klog structured", `E1130 11:01:48.000123       1 reflector.go:166] "Unhandled Error" err="failed to list *v1.Pod: \"x\"" logger="UnhandledError" n=3`,
			want{Error, "Unhandled Error", `{"caller":"reflector.go:166","err":"failed to list *v1.Pod: \"x\"","logger":"UnhandledError","n":"3"}`},
		},
		{
			"klog, a quoted word first", `W1130 11:01:48.000123       1 a.go:1] "x" is not a "y"`,
			want{Warn, `"x" is not a "y"`, `{"caller":"a.go:1"}`},
		},
		{"klog fatal", `F1130 11:01:48.000123       1 a.go:1] bye`, want{Fatal, "bye", `{"caller":"a.go:1"}`}},
		{
			"slog text", `time=2026-11-30T11:01:48.000Z level=INFO msg="hello there" count=3 name="a b"`,
			want{Info, "hello there", `{"count":"3","name":"a b"}`},
		},
		{
			"go-kit", `level=warn ts=2026-11-30T11:01:48.1Z caller=operator.go:1 component=prometheusoperator msg=sync key=a/b`,
			want{Warn, "sync", `{"caller":"operator.go:1","component":"prometheusoperator","key":"a/b"}`},
		},
		{"logrus", `time="2026-11-30T11:01:48Z" level=fatal msg="cannot" error="a=b"`, want{Fatal, "cannot", `{"error":"a=b"}`}},
		{"slog default", `2026/11/30 11:01:48 INFO hello there a=1 b="x y"`, want{Info, "hello there", `{"a":"1","b":"x y"}`}},
		{"std log", `2026/11/30 11:01:48 listening on :8080`, want{"", "listening on :8080", ""}},
		{"std log, a shout", `2026/11/30 11:01:48 TLS is off`, want{"", "TLS is off", ""}},
		{"panic", `panic: runtime error: index out of range [3] with length 2`, want{Fatal, `panic: runtime error: index out of range [3] with length 2`, ""}},
		{"runtime", `fatal error: concurrent map writes`, want{Fatal, `fatal error: concurrent map writes`, ""}},
		{"goroutine dump", `goroutine 1 [running]:`, want{"", `goroutine 1 [running]:`, ""}},
		{"stack line", "\t/src/main.go:12 +0x1d", want{"", "\t/src/main.go:12 +0x1d", ""}},
		{"data that is JSON", `{"a":1}`, want{"", `{"a":1}`, ""}},
		{"cut JSON", `{"level":"info","msg":"a`, want{"", `{"level":"info","msg":"a`, ""}},
		{"two JSON objects", `{"msg":"a"} {"msg":"b"}`, want{"", `{"msg":"a"} {"msg":"b"}`, ""}},
		{"prose with an equals sign", `set a=b to go on`, want{"", `set a=b to go on`, ""}},
		{"pairs that are no log line", `a=b c=d`, want{"", `a=b c=d`, ""}},
		{"empty", ``, want{"", ``, ""}},
	} {
		t.Run(c.name, func(t *testing.T) {
			var got want
			got.Level, got.Message, got.Fields = Parse(c.line)
			if d := cmp.Diff(c.want, got); d != "" {
				t.Errorf("Parse(%q) (-want +got):\n%s", c.line, d)
			}
		})
	}
}

func lines(t *testing.T, r io.Reader) []string {
	t.Helper()
	var got []string
	if err := Lines(r, func(l string) { got = append(got, l) }); err != nil {
		t.Fatal(err)
	}
	return got
}

func TestLines(t *testing.T) {
	got := lines(t, iotest.OneByteReader(strings.NewReader("a\r\n\nb\xff\nlast")))
	if d := cmp.Diff([]string{"a", "", "b\uFFFD", "last"}, got); d != "" {
		t.Error(d)
	}
	if got := lines(t, strings.NewReader("")); len(got) != 0 {
		t.Errorf("nothing gave %q", got)
	}
}

func TestLinesLong(t *testing.T) {
	// Three bytes a character, so that MaxLine cuts one in two.
	long := strings.Repeat("€", MaxLine) + "end"
	got := lines(t, strings.NewReader(long+"\nnext\n"))
	if got[len(got)-1] != "next" {
		t.Errorf("the line after a long one is %q", got[len(got)-1])
	}
	var joined strings.Builder
	for i, l := range got[:len(got)-1] {
		if len(l) > MaxLine+utf8.UTFMax+len(Continues) {
			t.Errorf("piece %d has %d bytes", i, len(l))
		}
		piece, marked := strings.CutSuffix(l, Continues)
		if marked == (i == len(got)-2) {
			t.Errorf("piece %d of %d: mark is %v", i, len(got)-1, marked)
		}
		joined.WriteString(piece)
	}
	if joined.String() != long {
		t.Error("the pieces do not add up to the line")
	}
}

func TestLinesError(t *testing.T) {
	broken := errors.New("broken")
	var got []string
	err := Lines(io.MultiReader(strings.NewReader("a\nb"), iotest.ErrReader(broken)), func(l string) { got = append(got, l) })
	if !errors.Is(err, broken) {
		t.Errorf("error is %v", err)
	}
	if d := cmp.Diff([]string{"a", "b"}, got); d != "" {
		t.Error(d)
	}
}

func FuzzParse(f *testing.F) {
	f.Add(`{"level":"info","msg":"a"}`)
	f.Add("2026-11-30T11:01:48Z\tINFO\ta\tb\t{}")
	f.Add(`E1130 11:01:48.000123       1 reflector.go:166] "m" err="a"`)
	f.Add(`level=info msg="a b" c=`)
	f.Fuzz(func(t *testing.T, line string) {
		_, _, fields := Parse(line)
		if fields == "" {
			return
		}
		if _, ok := parseObject(fields); !ok {
			t.Errorf("fields of %q are no JSON object: %q", line, fields)
		}
	})
}

func BenchmarkParse(b *testing.B) {
	lines := map[string]string{
		"json":    `{"level":"error","ts":"2026-11-30T11:01:48Z","logger":"controller","msg":"Reconciler error","controller":"rabbit","namespace":"a","error":"x"}`,
		"console": "2026-11-30T11:01:48Z\tINFO\tsetup\tstarting manager\t{\"version\": \"v1\", \"n\": 3}",
		"klog":    `E1130 11:01:48.000123       1 reflector.go:166] "Unhandled Error" err="failed" logger="UnhandledError"`,
	}
	for _, name := range []string{"json", "console", "klog"} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				Parse(lines[name])
			}
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "lines/s")
		})
	}
}
