// Command spin burns one processor in work, on one goroutine, whose number it prints; a second goroutine
// sleeps. With the argument clock it reads the clock instead.
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

//go:noinline
func clock(n uint64) {
	for range n {
		sink += uint64(time.Now().Nanosecond())
	}
}

func main() {
	burn := work
	if len(os.Args) > 1 {
		burn = clock
	}
	go func() {
		for {
			time.Sleep(time.Hour)
		}
	}()
	go func() {
		buf := make([]byte, 100)
		fmt.Println(strings.Fields(string(buf[:runtime.Stack(buf, false)]))[1])
		for {
			burn(1 << 20)
		}
	}()
	_, _ = io.Copy(io.Discard, os.Stdin)
}
