package symbols

import (
	"net/http"
	"net/url"
	"runtime"
	"testing"
	"unsafe"
)

func TestLayoutIsKnownByRelease(t *testing.T) {
	for version, want := range map[string]bool{
		"go1.26.8": true, "go1.23": true, "go1.24.1 X:nocoverageredesign": true, "go1.26-custom": true,
		"go1.19.3": false, "go1.260": false, "devel go1.27-abc": false, "": false,
	} {
		if _, ok := LayoutOf(version); ok != want {
			t.Errorf("%q: known is %t", version, ok)
		}
	}
}

// The toolchain that runs this test knows where its own fields lie.
func TestLayoutOfTheStandardLibrary(t *testing.T) {
	l, ok := LayoutOf(runtime.Version())
	if !ok {
		t.Fatalf("%s is not known: say where its fields lie", runtime.Version())
	}
	var r http.Request
	var u url.URL
	var s http.Response
	for name, pair := range map[string][2]uintptr{
		"Request.Method":        {unsafe.Offsetof(r.Method), 0},
		"Request.URL":           {unsafe.Offsetof(r.URL), 16},
		"Request.Body":          {unsafe.Offsetof(r.Body), 64},
		"Request.ContentLength": {unsafe.Offsetof(r.ContentLength), 88},
		"URL.Path":              {unsafe.Offsetof(u.Path), 56},
		"URL.RawQuery":          {unsafe.Offsetof(u.RawQuery), uintptr(l.URLRawQuery)},
		"Response.StatusCode":   {unsafe.Offsetof(s.StatusCode), 16},
	} {
		if pair[0] != pair[1] {
			t.Errorf("%s lies at %d, not %d", name, pair[0], pair[1])
		}
	}
}
