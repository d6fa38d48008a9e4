// Package clock reads the clock by which the kernel stamps what its programs see.
package clock
