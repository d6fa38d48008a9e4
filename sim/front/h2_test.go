package front

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

// multiplexed is the client's side of an HTTP/2 connection.
type multiplexed struct {
	*http2.Framer
	block bytes.Buffer
	enc   *hpack.Encoder
	last  uint32
}

func multiplex(p *pipe) *multiplexed {
	m := &multiplexed{Framer: http2.NewFramer(&p.in, &p.out)}
	m.ReadMetaHeaders = hpack.NewDecoder(4096, nil)
	m.enc = hpack.NewEncoder(&m.block)
	p.in.WriteString(http2.ClientPreface)
	_ = m.WriteSettings() // into a buffer, as all else
	return m
}

// call opens a stream.
func (m *multiplexed) call(agent, method, path, contentType, body string) {
	m.block.Reset()
	for _, f := range [][2]string{
		{":method", method}, {":scheme", "http"}, {":authority", "w"}, {":path", path}, {"user-agent", agent}, {"content-type", contentType},
	} {
		_ = m.enc.WriteField(hpack.HeaderField{Name: f[0], Value: f[1]})
	}
	m.last += 2
	id := m.last - 1
	_ = m.WriteHeaders(http2.HeadersFrameParam{StreamID: id, EndHeaders: true, EndStream: body == "", BlockFragment: m.block.Bytes()})
	if body != "" {
		_ = m.WriteData(id, true, []byte(body))
	}
}

// received says what has come, by stream.
func (m *multiplexed) received(t *testing.T) string {
	heads, bodies, ends := map[uint32]string{}, map[uint32][]byte{}, map[uint32]string{}
	var ids []uint32
	for {
		f, err := m.ReadFrame()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		id := f.Header().StreamID
		switch f := f.(type) {
		case *http2.MetaHeadersFrame:
			heads[id] = f.PseudoValue("status")
		case *http2.DataFrame:
			bodies[id] = append(bodies[id], f.Data()...)
			if f.StreamEnded() {
				ends[id] = " and ended"
			}
		case *http2.RSTStreamFrame:
			ends[id] = " reset: " + f.ErrCode.String()
		default:
			continue // about the connection
		}
		if id != 0 && !slices.Contains(ids, id) {
			ids = append(ids, id)
		}
	}
	var b strings.Builder
	slices.Sort(ids)
	for _, id := range ids {
		fmt.Fprintf(&b, "%s%s\n", strings.TrimSpace("stream "+strconv.Itoa(int(id))+": "+heads[id]), ends[id])
		if e := events(bodies[id]); !strings.HasPrefix(e, "   ") && e != "" { // an object of its own has no type
			b.WriteString(e)
		} else if len(bodies[id]) > 0 {
			b.WriteString("  " + describe(bodies[id]) + "\n")
		}
	}
	if b.Len() == 0 {
		return "nothing\n"
	}
	return b.String()
}
