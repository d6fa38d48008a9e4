// Command gc allocates, collects and computes on several goroutines, with preemption by signals.
package main

import (
	"crypto/sha256"
	"fmt"
	"runtime"
	"sync"
	"time"
)

func main() {
	var wg sync.WaitGroup
	ch := make(chan [32]byte, 3)
	for g := range 8 {
		wg.Go(func() {
			m := map[string][]byte{}
			sum := sha256.Sum256([]byte{byte(g)})
			for i := range 300 {
				m[fmt.Sprint(i, sum[0])] = make([]byte, 1000*int(sum[1]))
				sum = sha256.Sum256(sum[:])
				for range 2000 {
					sum[3] = sum[3]*7 + 1
				}
				if i%50 == 0 {
					time.Sleep(time.Duration(sum[2]) * time.Millisecond)
					clear(m)
				}
				ch <- sum
			}
		})
	}
	go func() { wg.Wait(); close(ch) }()
	var all [32]byte
	for sum := range ch {
		b := append(all[:], sum[:]...)
		all = sha256.Sum256(b)
	}
	var st runtime.MemStats
	runtime.ReadMemStats(&st)
	fmt.Printf("%x, %d collections, %d\n", all, st.NumGC, st.Mallocs/100)
}
