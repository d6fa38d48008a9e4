// Command guest has what symbolizers get wrong: inlined calls two deep, generics, closures, a method
// value's wrapper, and assembly from the standard library. It prints a stack of its own as the runtime
// sees it, a line a frame, and waits for its input to end, so that others may look at it.
package main

import (
	"crypto/sha256"
	"fmt"
	"io"
	"os"
	"runtime"
	"sort"
)

type number interface{ ~int | ~float64 }

type box[T number] struct{ v []T }

func add[T number](a, b T) T { return a + b }

func (b *box[T]) sum(each func()) (s T) {
	for _, v := range b.v {
		s = add(s, twice(v))
	}
	each()
	return s
}

func twice[T number](v T) T { return add(v, v) }

type namer interface{ name() string }

type plain struct{ n int }

func (p plain) name() string { return fmt.Sprint("plain", p.n) }

//go:noinline
func call(n namer) string { return n.name() }

// stack is inlined into its callers.
func stack() { printStack() }

//go:noinline
func printStack() {
	pcs := make([]uintptr, 64)
	pcs = pcs[:runtime.Callers(1, pcs)]
	for _, pc := range pcs {
		f, _ := runtime.CallersFrames([]uintptr{pc}).Next()
		fmt.Printf("%#x\t%s %s:%d\n", pc, f.Function, f.File, f.Line)
	}
	fmt.Println()
}

func main() {
	b := &box[int]{[]int{1, 2, 3}}
	f := &box[float64]{[]float64{1, 2}}
	sort.Slice(b.v, func(i, j int) bool { return b.v[i] > b.v[j] })
	fmt.Fprintln(os.Stderr, b.sum(stack), f.sum(func() { stack() }), call(&plain{1}), sha256.Sum256([]byte("x")))
	_, _ = io.Copy(io.Discard, os.Stdin)
}
