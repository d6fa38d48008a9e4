// Command spin burns one processor in work, on one goroutine, whose number it prints; a second goroutine
// sleeps.
package main

import (
	"fmt"
	"io"
	"os"
	"runtime"
	"strings"
	"time"
)

var sink uint64

//go:noinline
func work(n uint64) {
	for i := range n {
		sink += mix(i)
	}
}

// mix is inlined into work.
func mix(x uint64) uint64 { return x*x ^ x>>3 }

func main() {
	go func() {
		for {
			time.Sleep(time.Hour)
		}
	}()
	go func() {
		buf := make([]byte, 100)
		fmt.Println(strings.Fields(string(buf[:runtime.Stack(buf, false)]))[1])
		for {
			work(1 << 20)
		}
	}()
	_, _ = io.Copy(io.Discard, os.Stdin)
}
