// Command timers sleeps in all the ways that Go has, for ten minutes.
package main

import (
	"context"
	"crypto/rand"
	"fmt"
	mrand "math/rand/v2"
	"os"
	"sync"
	"time"
)

func main() {
	start := time.Now()
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			time.Sleep(10*time.Minute + time.Duration(i)*time.Millisecond)
		})
	}
	wg.Go(func() {
		tick := time.NewTicker(7 * time.Second)
		defer tick.Stop()
		for range 50 {
			<-tick.C
		}
	})
	ctx, cancel := context.WithTimeout(context.Background(), 90*time.Second)
	defer cancel()
	m := map[int]int{}
	var mu sync.Mutex
	for i := range 400 {
		wg.Go(func() {
			select {
			case <-ctx.Done():
			case <-time.After(time.Duration(mrand.IntN(int(2 * time.Minute)))):
			}
			mu.Lock()
			m[i] = len(m)
			mu.Unlock()
		})
	}
	wg.Wait()
	sum := 0
	for k, v := range m { // the order of a map is random
		sum = sum*31 + k*v
	}
	var b [8]byte
	rand.Read(b[:])
	fmt.Printf("slept %v, now %v, sum %x, random %x %x\n", time.Since(start).Round(time.Second), time.Now().UTC(), uint64(sum), b, mrand.Uint64())
	fmt.Fprintln(os.Stderr, "pid", os.Getpid())
}
