package causal

import (
	"fmt"
	"path"
	"strings"

	"github.com/opreplay/opreplay/traces"
)

// libraries are the import paths of what every operator is built on: a line of theirs says nothing about the operator.
var libraries = []string{
	"k8s.io/", "sigs.k8s.io/", "google.golang.org/", "golang.org/", "go.uber.org/", "github.com/go-logr/", "github.com/google/", "github.com/golang/",
	"github.com/prometheus/", "github.com/spf13/", "github.com/operator-framework/", "vendor/",
}

// Own is the frame of a stack, leaf first, that is nearest to the leaf and the operator's own rather than a library's or
// Go's; nil where there is none.
func Own(frames []traces.Frame) *traces.Frame {
	for i := range frames {
		if f := &frames[i]; f.File != "" && own(f.Function) {
			return f
		}
	}
	return nil
}

func own(function string) bool {
	pkg := function
	if slash := strings.LastIndexByte(pkg, '/'); slash >= 0 {
		if dot := strings.IndexByte(pkg[slash:], '.'); dot >= 0 {
			pkg = pkg[:slash+dot]
		}
	} else if dot := strings.IndexByte(pkg, '.'); dot >= 0 {
		pkg = pkg[:dot]
	}
	if pkg == "main" {
		return true
	}
	first, _, _ := strings.Cut(pkg, "/")
	if !strings.Contains(first, ".") { // Go's own have no domain
		return false
	}
	for _, l := range libraries {
		if strings.HasPrefix(pkg, l) {
			return false
		}
	}
	return true
}

// Line is a frame in words: file:line (function), the file by its last two parts.
func Line(f *traces.Frame) string {
	if f == nil {
		return ""
	}
	file := path.Base(f.File)
	if dir := path.Base(path.Dir(f.File)); dir != "." && dir != "/" {
		file = dir + "/" + file
	}
	return fmt.Sprintf("%s:%d (%s)", file, f.Line, path.Base(f.Function))
}
