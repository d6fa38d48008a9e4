// Package e2e tests the whole path as its user walks it, with the built binaries: a real control plane, an
// operator of the zoo under `oprec run`, a user, `opsim analyze`, `opsim replay` and `opsim analyze` again.
// And the documentation as its reader follows it: every command of its pages is run, in the page's order and in a folder
// of the page's own, and what the page shows of its output is looked for (TestDocumentation). What is not run, run
// otherwise, or ends with another exit code than 0 stands in the table of pages (pages_linux_amd64_test.go).
// It has no code of its own to import.
package e2e
