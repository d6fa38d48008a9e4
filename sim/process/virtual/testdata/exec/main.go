// Command exec starts children and waits for them.
package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"time"
)

func main() {
	start := time.Now()
	out, err := exec.Command("/bin/sh", "-c", "sleep 100; echo one; (sleep 5; echo two) & wait; echo three | cat; exit 4").CombinedOutput()
	fmt.Printf("%q %v %v\n", out, err, time.Since(start).Round(time.Millisecond))

	start = time.Now()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	err = exec.CommandContext(ctx, "/bin/sleep", "1000").Run()
	fmt.Println(err, time.Since(start).Round(time.Millisecond))

	cmd := exec.Command("/bin/cat")
	cmd.Stdin = bytes.NewReader(bytes.Repeat([]byte("x"), 300_000))
	b, err := cmd.Output()
	fmt.Println(len(b), err)

	err = exec.Command("/does/not/exist").Run()
	fmt.Println(err)
	cmd = exec.Command("/bin/sh", "-c", "echo to stdout; echo to stderr >&2; sleep 1000 &")
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	fmt.Println(cmd.Run(), "and one is left behind")
}
