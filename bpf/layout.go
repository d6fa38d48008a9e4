package bpf

import (
	"debug/buildinfo"
	"regexp"
	"strconv"
)

// goLayout is where in the Go runtime's structures a goroutine's number is found, in bytes.
type goLayout struct {
	gM, gID  uint32 // runtime.g.m, runtime.g.goid
	mCurrent uint32 // runtime.m.curg
}

// goLayouts holds what the DWARF of binaries made by each release says (linux/amd64). A release that is not
// here is sampled without goroutines rather than with wrong ones.
var goLayouts = map[string]goLayout{
	"1.21": {48, 152, 192},
	"1.22": {48, 152, 192},
	"1.23": {48, 160, 192},
	"1.24": {48, 160, 192},
	"1.25": {48, 152, 184},
	"1.26": {48, 152, 184},
}

var release = regexp.MustCompile(`^go(1\.\d+)(?:[.\s-]|$)`)

// layoutOf is the layout for a toolchain's version, such as "go1.26.8".
func layoutOf(version string) (l goLayout, ok bool) {
	m := release.FindStringSubmatch(version)
	if m == nil {
		return goLayout{}, false
	}
	l, ok = goLayouts[m[1]]
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
