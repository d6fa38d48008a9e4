package symbols

import (
	"debug/buildinfo"
	"regexp"
	"strconv"
)

// Layout is where Go's runtime and standard library keep what a watcher from outside wants to read, as
// offsets in bytes (linux/amd64).
type Layout struct {
	GM, GID     uint32 // runtime.g.m, runtime.g.goid
	MCurrent    uint32 // runtime.m.curg
	URLRawQuery uint32 // net/url.URL.RawQuery
}

// layouts holds what the DWARF of binaries made by each release says. The standard library's other fields
// that are read (http.Request's Method, URL, Body, ContentLength; url.URL's Path; http.Response's
// StatusCode) lie in the same places in all of these.
var layouts = map[string]Layout{
	"1.21": {48, 152, 192, 96},
	"1.22": {48, 152, 192, 96},
	"1.23": {48, 160, 192, 96},
	"1.24": {48, 160, 192, 96},
	"1.25": {48, 152, 184, 96},
	"1.26": {48, 152, 184, 88},
}

var release = regexp.MustCompile(`^go(1\.\d+)(?:[.\s-]|$)`)

// LayoutOf is the layout for a toolchain's version, such as "go1.26.8". It is not ok for a release that is
// not known: then it is better to know nothing than to read the wrong words.
func LayoutOf(version string) (l Layout, ok bool) {
	m := release.FindStringSubmatch(version)
	if m == nil {
		return Layout{}, false
	}
	l, ok = layouts[m[1]]
	return l, ok
}

// GoVersion is the toolchain that built the program which the process PID runs, "" if it is no Go program
// or may not be read.
func GoVersion(pid int) string {
	info, err := buildinfo.ReadFile("/proc/" + strconv.Itoa(pid) + "/exe")
	if err != nil {
		return ""
	}
	return info.GoVersion
}
