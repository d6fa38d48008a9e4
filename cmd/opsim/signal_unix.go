//go:build unix

package main

import (
	"os"
	"os/signal"
	"syscall"
)

// breakSignal is the signal with which a run that stands still goes on: kill -USR1.
func breakSignal() <-chan os.Signal {
	c := make(chan os.Signal, 1)
	signal.Notify(c, syscall.SIGUSR1)
	return c
}
