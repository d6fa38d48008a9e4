// Command spin has a thread that waits for another in a loop without a system call.
package main

import (
	"fmt"
	"sync/atomic"
	"time"
)

func main() {
	var done atomic.Bool
	go func() {
		time.Sleep(time.Second)
		done.Store(true)
	}()
	time.Sleep(time.Millisecond)
	for !done.Load() {
	}
	fmt.Println("seen")
}
