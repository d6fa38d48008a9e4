// Package e2e tests the whole path as its user walks it, with the built binaries: a real control plane, an
// operator of the zoo under `oprec run`, a user, `opsim analyze`, `opsim replay` and `opsim analyze` again.
// It has no code of its own to import.
package e2e
