package apicall

import (
	"encoding/binary"
	"fmt"
)

// A splitter finds the frames of a watch in the pieces in which its bytes happen to pass. feed calls
// frame for each frame that ends within p, in order; what frame is given is valid only during the call.
// A frame over the limit is passed over; oversized counts them. After an error the stream can't be
// followed any more.
type splitter interface {
	feed(p []byte, frame func([]byte)) error
	oversized() int64
}

// jsonSplitter splits concatenated JSON objects, with or without white space between them: what
// k8s.io/apimachinery/pkg/util/framer calls JSON framing.
type jsonSplitter struct {
	limit    int
	partial  []byte // of the frame that has begun
	begun    bool
	dropping bool // the frame is over the limit
	depth    int
	inString bool
	escaped  bool
	over     int64
}

func (s *jsonSplitter) oversized() int64 { return s.over }

func (s *jsonSplitter) feed(p []byte, frame func([]byte)) error {
	start := 0 // of the current frame within p
	for i := 0; i < len(p); i++ {
		c := p[i]
		if s.inString {
			switch {
			case s.escaped:
				s.escaped = false
			case c == '\\':
				s.escaped = true
			case c == '"':
				s.inString = false
			}
			continue
		}
		switch c {
		case '"':
			s.inString = s.begun
		case '{', '[':
			if !s.begun {
				s.begun, start = true, i
			}
			s.depth++
		case '}', ']':
			s.depth--
			if s.depth == 0 && s.begun {
				s.end(p[start:i+1], frame)
			}
		}
		if !s.begun && s.depth <= 0 && c != ' ' && c != '\t' && c != '\r' && c != '\n' && c != '}' && c != ']' {
			return fmt.Errorf("a watch of JSON objects has %q between two of them", c)
		}
		if s.depth < 0 {
			return fmt.Errorf("a watch of JSON objects has %q between two of them", c)
		}
	}
	if s.begun {
		s.keep(p[start:])
	}
	return nil
}

// keep holds the beginning of a frame until the rest comes.
func (s *jsonSplitter) keep(p []byte) {
	if s.dropping || len(s.partial)+len(p) > s.limit {
		s.dropping, s.partial = true, nil
		return
	}
	s.partial = append(s.partial, p...)
}

func (s *jsonSplitter) end(tail []byte, frame func([]byte)) {
	switch {
	case s.dropping || len(s.partial)+len(tail) > s.limit:
		s.over++
	case len(s.partial) == 0:
		frame(tail)
	default:
		s.partial = append(s.partial, tail...)
		frame(s.partial)
	}
	s.partial, s.begun, s.dropping = s.partial[:0], false, false
}

// lengthSplitter splits frames behind a length of four bytes, big endian: what
// k8s.io/apimachinery/pkg/util/framer uses for protobuf.
type lengthSplitter struct {
	limit   int
	head    [4]byte
	headLen int
	want    int // bytes of the frame that are still to come
	partial []byte
	drop    bool
	over    int64
}

func (s *lengthSplitter) oversized() int64 { return s.over }

func (s *lengthSplitter) feed(p []byte, frame func([]byte)) error {
	for len(p) > 0 {
		if s.headLen < len(s.head) {
			n := copy(s.head[s.headLen:], p)
			s.headLen += n
			p = p[n:]
			if s.headLen < len(s.head) {
				return nil
			}
			s.want = int(binary.BigEndian.Uint32(s.head[:]))
			s.drop = s.want > s.limit
			if s.want == 0 {
				s.headLen = 0
				frame(nil)
			}
			continue
		}
		n := min(s.want, len(p))
		part := p[:n]
		p, s.want = p[n:], s.want-n
		switch {
		case s.drop:
			if s.want == 0 {
				s.over++
			}
		case s.want > 0:
			s.partial = append(s.partial, part...)
		case len(s.partial) == 0:
			frame(part)
		default:
			s.partial = append(s.partial, part...)
			frame(s.partial)
		}
		if s.want == 0 {
			s.headLen, s.partial = 0, s.partial[:0]
		}
	}
	return nil
}
