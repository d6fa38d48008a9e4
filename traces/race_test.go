//go:build race

package traces

// Under the race detector the tests that damage a file hundreds of times do it a few times: they run in
// one goroutine, and it makes them ten times as slow.
func init() { patience = 10 }
