// Command idle does what an operator with nothing to do does: tickers of work queues, a lease to renew, a resync.
package main

import (
	"fmt"
	"os"
	"time"
)

func main() {
	limit, err := time.ParseDuration(os.Args[1])
	if err != nil {
		fmt.Println(err)
		os.Exit(2)
	}
	for _, d := range []time.Duration{500 * time.Millisecond, 500 * time.Millisecond, 2 * time.Second, 30 * time.Second} {
		go func() {
			for range time.Tick(d) {
			}
		}()
	}
	time.Sleep(limit)
}
