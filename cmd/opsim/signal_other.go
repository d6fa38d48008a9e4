//go:build !unix

package main

import "os"

// breakSignal: there is none here.
func breakSignal() <-chan os.Signal { return nil }
