// Package arch holds no code, only a test: imports between the rooms of the house run downward.
package arch
