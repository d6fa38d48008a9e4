package oplog

import (
	"strconv"
	"strings"
)

type pair struct{ key, value string }

// parseLogfmt reads key=value lines: slog's TextHandler, go-kit, logrus. A line counts when all of it parses
// and it says a level or a message; else any text with an equals sign would.
func parseLogfmt(line string) (parsed, bool) {
	pairs, ok := logfmtPairs(line)
	if !ok {
		return parsed{}, false
	}
	var p parsed
	known := false
	for _, kv := range pairs {
		switch kv.key {
		case "time", "ts", "t", "timestamp":
		case "level", "lvl":
			level, ok := levelOf(kv.value)
			if !ok {
				p.fields.text(kv.key, kv.value)
				continue
			}
			p.level, known = level, true
		case "msg", "message":
			p.message, known = kv.value, true
		default:
			p.fields.text(kv.key, kv.value)
		}
	}
	return p, known
}

// logfmtPairs parses s as key=value pairs, values bare or as Go strings. ok is false when anything else is in
// s. No pairs at all is fine.
func logfmtPairs(s string) (pairs []pair, ok bool) {
	for {
		s = strings.TrimLeft(s, " ")
		if s == "" {
			return pairs, true
		}
		eq := strings.IndexByte(s, '=')
		if eq <= 0 || strings.ContainsAny(s[:eq], " \"\t{}") {
			return nil, false
		}
		key := s[:eq]
		s = s[eq+1:]
		value, rest, quoted := cutQuoted(s)
		if !quoted {
			value, rest, _ = strings.Cut(s, " ")
		} else if rest != "" && rest[0] != ' ' {
			return nil, false
		}
		pairs = append(pairs, pair{key, value})
		s = rest
	}
}

// cutQuoted takes a Go string off the front of s.
func cutQuoted(s string) (value, rest string, ok bool) {
	if !strings.HasPrefix(s, `"`) {
		return "", s, false
	}
	q, err := strconv.QuotedPrefix(s)
	if err != nil {
		return "", s, false
	}
	value, err = strconv.Unquote(q)
	return value, s[len(q):], err == nil
}
