package virtual

import (
	"encoding/binary"
	"net/netip"
	"strings"

	"golang.org/x/sys/unix"
)

// peekAddr reads a struct sockaddr_in or sockaddr_in6.
func (t *thread) peekAddr(addr, size uint64) (netip.AddrPort, error) {
	var b [28]byte
	if size < 2 {
		return netip.AddrPort{}, unix.EINVAL
	}
	if err := t.peek(addr, b[:min(size, 28)]); err != nil {
		return netip.AddrPort{}, err
	}
	port := binary.BigEndian.Uint16(b[2:])
	switch family := binary.LittleEndian.Uint16(b[:]); {
	case family == unix.AF_INET && size >= 16:
		return netip.AddrPortFrom(netip.AddrFrom4([4]byte(b[4:8])), port), nil
	case family == unix.AF_INET6 && size >= 28:
		return netip.AddrPortFrom(netip.AddrFrom16([16]byte(b[8:24])), port), nil
	case family == unix.AF_UNSPEC:
		return netip.AddrPort{}, nil
	}
	return netip.AddrPort{}, unix.EAFNOSUPPORT
}

// pokeAddr writes ap as an address of the given family, cut at the size that the process offers, as the kernel does.
func (t *thread) pokeAddr(family int, ap netip.AddrPort, addr, sizeAddr uint64) error {
	if addr == 0 {
		return nil
	}
	var b [28]byte
	n := 16
	binary.LittleEndian.PutUint16(b[:], uint16(family))
	binary.BigEndian.PutUint16(b[2:], ap.Port())
	ip := ap.Addr()
	if family == unix.AF_INET {
		if ip.IsValid() && !ip.Unmap().Is6() {
			v4 := ip.Unmap().As4()
			copy(b[4:], v4[:])
		}
	} else {
		n = 28
		if ip.IsValid() && ip != netip.IPv4Unspecified() {
			v6 := ip.As16()
			copy(b[8:], v6[:])
		}
	}
	size, err := t.peek32(sizeAddr)
	if err != nil {
		return err
	}
	if err := t.poke(addr, b[:min(n, int(size))]); err != nil {
		return err
	}
	return t.poke32(sizeAddr, uint32(n))
}

// unixName is the path (or, after a NUL, the abstract name) of a struct sockaddr_un.
func (t *thread) unixName(a *[6]uint64) (string, bool) {
	var b [110]byte
	n := min(a[2], uint64(len(b)))
	if n < 3 || t.peek(a[1], b[:n]) != nil || binary.LittleEndian.Uint16(b[:]) != unix.AF_UNIX {
		return "", false
	}
	name := string(b[2:n])
	if name[0] != 0 {
		name, _, _ = strings.Cut(name, "\x00")
	}
	return name, true
}

func loopback(like netip.Addr) netip.Addr {
	if like.Is4() || like.Is4In6() {
		return netip.AddrFrom4([4]byte{127, 0, 0, 1})
	}
	return netip.IPv6Loopback()
}

// sourceFor is the address from which a connection to ip is made.
func (p *proc) sourceFor(ip netip.Addr) netip.Addr {
	own := p.root.spec.IP
	if ip.Unmap().IsLoopback() || !own.IsValid() {
		return loopback(ip)
	}
	return own
}
