package symbols

import "testing"

func BenchmarkOpen(b *testing.B) {
	path := build(b, "-ldflags=-s -w")
	for b.Loop() {
		open(b, path)
	}
}

// BenchmarkFrames names addresses all over the program, each for the first time.
func BenchmarkFrames(b *testing.B) {
	bin := open(b, build(b, "-ldflags=-s -w"))
	i := 0
	for b.Loop() {
		fn := bin.Func(i * 7919 % bin.NumFuncs())
		bin.Frames((fn.Entry + fn.End) / 2)
		i++
	}
}
