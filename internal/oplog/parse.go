package oplog

import (
	"regexp"
	"strings"
)

// The levels that Parse knows.
const (
	Debug = "debug"
	Info  = "info"
	Warn  = "warn"
	Error = "error"
	Fatal = "fatal"
)

// Parse takes one log line apart. level is one of the constants, "" when the line has none; message is the
// line's message, or the whole line where its form is unknown; fields is a JSON object of all other fields in
// the order in which they came, logger and caller among them, "" for none.
func Parse(line string) (level, message, fields string) {
	plain := stripColour(line)
	for _, form := range []func(string) (parsed, bool){
		parseJSON, parseKlog, parseConsole, parseStdlog, parsePanic, parseLogfmt,
	} {
		if p, ok := form(plain); ok {
			return p.level, p.message, p.fields.String()
		}
	}
	return "", plain, ""
}

// parsed is a line whose form was understood.
type parsed struct {
	level   string
	message string
	fields  object
}

var colour = regexp.MustCompile("\x1b\\[[0-9;]*m")

func stripColour(s string) string {
	if !strings.Contains(s, "\x1b[") {
		return s
	}
	return colour.ReplaceAllString(s, "")
}

// levelOf maps the level names of the known loggers to ours; ok is false for a word that is no level.
func levelOf(word string) (level string, ok bool) {
	w := strings.ToLower(word)
	// slog prints levels between its own as INFO+2; zap prints logr's V levels as Level(-2).
	if i := strings.IndexAny(w, "+-("); i > 0 {
		w = w[:i]
	}
	switch w {
	case "trace", "debug", "dbg", "level", "verbose":
		return Debug, true
	case "info", "inf", "notice", "information":
		return Info, true
	case "warn", "warning", "wrn":
		return Warn, true
	case "error", "err", "eror", "critical", "crit":
		return Error, true
	case "fatal", "panic", "dpanic", "ftl", "emerg", "alert":
		return Fatal, true
	}
	return "", false
}

// klog's header: Lmmdd hh:mm:ss.uuuuuu threadid file:line] (k8s.io/klog/v2, formatHeader).
var klogHeader = regexp.MustCompile(`^([IWEF])\d{4} \d{2}:\d{2}:\d{2}\.\d+\s+\d+ ([^ \]]+:\d+)\] ?`)

func parseKlog(line string) (parsed, bool) {
	m := klogHeader.FindStringSubmatch(line)
	if m == nil {
		return parsed{}, false
	}
	p := parsed{level: map[string]string{"I": Info, "W": Warn, "E": Error, "F": Fatal}[m[1]]}
	p.fields.text("caller", m[2])
	p.message = line[len(m[0]):]
	// InfoS and ErrorS write the message as a Go string and key="value" pairs behind it.
	if quoted, rest, ok := cutQuoted(p.message); ok {
		if pairs, ok := logfmtPairs(rest); ok {
			p.message = quoted
			for _, kv := range pairs {
				p.fields.text(kv.key, kv.value)
			}
		}
	}
	return p, true
}

var (
	consoleTime = regexp.MustCompile(`^\d{4}-\d{2}-\d{2}[T ]\d{2}:\d{2}:\d{2}\S*$|^\d+(\.\d+)?(e[+-]?\d+)?$`)
	callerWord  = regexp.MustCompile(`^\S+\.go:\d+$`)
)

// parseConsole reads zap's console encoder: time, level, logger, caller, message, fields, tabs between, each
// of logger, caller and fields only where there is one.
func parseConsole(line string) (parsed, bool) {
	cols := strings.Split(line, "\t")
	if len(cols) < 3 || !consoleTime.MatchString(cols[0]) {
		return parsed{}, false
	}
	level, ok := levelOf(cols[1])
	if !ok {
		return parsed{}, false
	}
	p, cols := parsed{level: level}, cols[2:]
	var tail object
	if last := cols[len(cols)-1]; len(cols) > 1 && strings.HasPrefix(last, "{") {
		if o, ok := parseObject(last); ok {
			tail, cols = o, cols[:len(cols)-1]
		}
	}
	if len(cols) > 1 && !callerWord.MatchString(cols[0]) {
		p.fields.text("logger", cols[0])
		cols = cols[1:]
	}
	if len(cols) > 1 && callerWord.MatchString(cols[0]) {
		p.fields.text("caller", cols[0])
		cols = cols[1:]
	}
	p.message = strings.Join(cols, "\t")
	p.fields.add(tail)
	return p, true
}

var stdlogTime = regexp.MustCompile(`^\d{4}/\d{2}/\d{2} \d{2}:\d{2}:\d{2}(\.\d+)? `)

// parseStdlog reads the standard library's log, and log/slog's default handler, which writes through it:
// LEVEL message key=value.
func parseStdlog(line string) (parsed, bool) {
	head := stdlogTime.FindString(line)
	if head == "" {
		return parsed{}, false
	}
	p := parsed{message: line[len(head):]}
	word, rest, _ := strings.Cut(p.message, " ")
	if word != strings.ToUpper(word) {
		return p, true
	}
	level, ok := levelOf(word)
	if !ok {
		return p, true
	}
	p.level, p.message = level, rest
	// The message is not quoted: it ends where the longest run of pairs up to the line's end begins.
	for at := 0; at < len(rest); {
		next := strings.IndexByte(rest[at:], ' ')
		if next < 0 {
			break
		}
		at += next + 1
		if pairs, ok := logfmtPairs(rest[at:]); ok && len(pairs) > 0 {
			p.message = rest[:at-1]
			for _, kv := range pairs {
				p.fields.text(kv.key, kv.value)
			}
			break
		}
	}
	return p, true
}

// parsePanic reads the lines by which the Go runtime says that the process is lost. The goroutine dump behind
// them stays as it comes: lines without a level.
func parsePanic(line string) (parsed, bool) {
	for _, prefix := range []string{"panic: ", "fatal error: ", "unexpected fault address ", "SIGABRT: ", "SIGQUIT: "} {
		if strings.HasPrefix(line, prefix) {
			return parsed{level: Fatal, message: line}, true
		}
	}
	return parsed{}, false
}
