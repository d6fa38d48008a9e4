package oplog

import (
	"bufio"
	"errors"
	"io"
	"strings"
	"unicode/utf8"
)

// MaxLine is the longest line, in bytes, that Lines hands on whole. A process may write without ever ending a
// line; its reader's memory stays bounded all the same.
const MaxLine = 64 << 10

// Continues ends every piece but the last of a line that was longer than MaxLine.
const Continues = "…[the line goes on]"

// Lines calls fn for each line of r, without its line end, until r ends. A line longer than MaxLine comes in
// pieces, each but the last marked by Continues. What is no UTF-8 is replaced by U+FFFD, since a trace holds
// text. The error is r's; nil at its end. A last line without line end counts.
func Lines(r io.Reader, fn func(line string)) error {
	br := bufio.NewReaderSize(r, MaxLine)
	var held []byte // bytes of a character that the last piece cut in two
	continued := false
	for {
		piece, err := br.ReadSlice('\n')
		whole := err == nil
		if len(held) > 0 {
			piece = append(held, piece...)
			held = nil
		}
		switch {
		case whole:
			fn(text(strings.TrimSuffix(string(piece[:len(piece)-1]), "\r")))
			continued = false
		case errors.Is(err, bufio.ErrBufferFull):
			n := wholeCharacters(piece)
			held = append([]byte(nil), piece[n:]...)
			fn(text(string(piece[:n])) + Continues)
			continued = true
		default:
			if len(piece) > 0 || continued {
				fn(text(strings.TrimSuffix(string(piece), "\r")))
			}
			if errors.Is(err, io.EOF) {
				return nil
			}
			return err
		}
	}
}

// wholeCharacters is how many bytes of b lie before a character that its end cuts in two.
func wholeCharacters(b []byte) int {
	for back := 1; back < utf8.UTFMax && back <= len(b); back++ {
		at := len(b) - back
		if !utf8.RuneStart(b[at]) {
			continue
		}
		if !utf8.FullRune(b[at:]) {
			return at
		}
		break
	}
	return len(b)
}

func text(s string) string { return strings.ToValidUTF8(s, "\uFFFD") }
