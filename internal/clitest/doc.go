// Package clitest tests a command as its user meets it: as a process, by its exit code and what it prints.
// The test binary itself is the program, so nothing needs to be built first:
//
//	func TestMain(m *testing.M) { clitest.Main(m, main) }
//
//	func TestNoSuchTrace(t *testing.T) {
//		got := clitest.Run(t, "inspect", "nosuch.optrace")
//		…
//	}
package clitest
