// Package symbols turns program counters of Go programs into functions, files and lines, without debug
// information: of stripped binaries too, static or position independent.
//
// A Go binary always carries its runtime's own tables, since it needs them to print a panic: .gopclntab
// (functions, lines, stack depths) and, beside the module data, the inlining trees. They are read here
// as the runtime reads them (runtime/symtab.go, cmd/internal/goobj/funcinfo.go; the format with magic
// 0xfffffff1 that Go has written since 1.20).
//
//	b, err := symbols.Open("/proc/4711/exe")
//	for _, f := range b.Frames(pc) { … }        // leaf first: inlined functions, then the one they are in
//
// A [Process] does so for the addresses of a running process, whose binary may lie elsewhere than it was
// linked for, caches what it found, and counts what it could not resolve. [Kernel] names the kernel's
// own functions, where it lets us know them.
//
// Binaries are input like any other: nothing that a damaged or hostile one holds makes this package panic
// or loop; what can't be read is an error, or a frame without a name.
package symbols
