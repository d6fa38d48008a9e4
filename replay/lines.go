package replay

import (
	"bytes"
	"strings"

	"github.com/opreplay/opreplay/internal/oplog"
)

// lineSplitter makes lines of what comes in pieces, as oplog.Lines does of what can be read.
type lineSplitter struct {
	line func(string)
	rest []byte
}

func (s *lineSplitter) write(p []byte) {
	s.rest = append(s.rest, p...)
	for {
		i := bytes.IndexByte(s.rest, '\n')
		switch {
		case i >= 0:
			s.put(s.rest[:i], "")
			s.rest = s.rest[i+1:]
		case len(s.rest) > oplog.MaxLine:
			s.put(s.rest[:oplog.MaxLine], oplog.Continues)
			s.rest = s.rest[oplog.MaxLine:]
		default:
			return
		}
	}
}

// flush takes a last line that has no end.
func (s *lineSplitter) flush() {
	if len(s.rest) > 0 {
		s.put(s.rest, "")
		s.rest = nil
	}
}

func (s *lineSplitter) put(line []byte, end string) {
	s.line(strings.ToValidUTF8(strings.TrimSuffix(string(line), "\r"), "\uFFFD") + end)
}
