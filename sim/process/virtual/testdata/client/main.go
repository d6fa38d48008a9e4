// Command client makes HTTP requests: four at a time, bodies up to 180 kB, then with a time-out that passes.
package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"strings"
	"sync"
	"time"
)

func main() {
	base := os.Args[1]
	var wg sync.WaitGroup
	for w := range 4 {
		wg.Go(func() {
			for i := range 10 {
				body := bytes.Repeat([]byte{'a' + byte(i)}, rand.IntN(180_000))
				resp, err := http.Post(fmt.Sprintf("%s/%d/%d", base, w, i), "text/plain", bytes.NewReader(body))
				if err != nil {
					fmt.Println("error", err)
					os.Exit(1)
				}
				back, err := io.ReadAll(resp.Body)
				resp.Body.Close()
				if err != nil || !bytes.Equal(back, body) {
					fmt.Println("wrong echo", len(back), len(body), err)
					os.Exit(1)
				}
				time.Sleep(time.Duration(rand.IntN(int(3 * time.Second))))
			}
		})
	}
	wg.Wait()
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	req, _ := http.NewRequestWithContext(ctx, "GET", base+"/silent", nil)
	start := time.Now()
	_, err := http.DefaultClient.Do(req)
	fmt.Println("silent:", err, time.Since(start).Round(time.Millisecond))
	_, err = net.Dial("tcp", "192.0.2.1:9")
	fmt.Println("refused:", err)
	fmt.Println(strings.Repeat("done ", 3))
}
