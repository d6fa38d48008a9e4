// Command guest does what lines tell it to, and says so when it is done: connect ADDRESS, start PROGRAM TIMES,
// fill FILE, allocate FILE, make FOLDER, read FILE DURATION RATE STOP: until a file STOP is there, or the
// time is over.
package main

import (
	"bufio"
	"fmt"
	"net"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"time"
)

func main() {
	for in := bufio.NewScanner(os.Stdin); in.Scan(); {
		fmt.Println(do(strings.Fields(in.Text())))
	}
}

func do(words []string) error {
	switch words[0] {
	case "connect":
		return connect(words[1])
	case "start":
		for range number(words[2]) {
			if err := exec.Command(words[1]).Run(); err != nil {
				return err
			}
		}
		return nil
	case "fill":
		return fill(words[1])
	case "allocate":
		f, err := os.Create(words[1])
		if err != nil {
			return err
		}
		defer f.Close() //nolint:errcheck // it fails
		return syscall.Fallocate(int(f.Fd()), 0, 0, 1<<30)
	case "make":
		return os.Mkdir(words[1], 0o700)
	case "read":
		long, err := time.ParseDuration(words[2])
		if err != nil {
			return err
		}
		n, err := read(words[1], long, number(words[3]), words[4])
		fmt.Print(n, " reads: ")
		return err
	}
	return fmt.Errorf("what is %s?", words[0])
}

func number(word string) int {
	n, err := strconv.Atoi(word)
	if err != nil {
		panic(err)
	}
	return n
}

//go:noinline
func connect(address string) error {
	c, err := net.Dial("tcp", address)
	if err != nil {
		return err
	}
	return c.Close()
}

//go:noinline
func fill(file string) error {
	f, err := os.Create(file)
	if err != nil {
		return err
	}
	defer f.Close() //nolint:errcheck // it is full
	for {
		if _, err := f.Write(make([]byte, 1<<16)); err != nil {
			return err
		}
	}
}

// read reads RATE times in a second, in ten goes, until a file STOP is there or the time is over.
//
//go:noinline
func read(file string, long time.Duration, rate int, stop string) (n int, err error) {
	f, err := os.Open(file)
	if err != nil {
		return 0, err
	}
	defer f.Close() //nolint:errcheck // only read
	buf := make([]byte, 1)
	tick := time.NewTicker(time.Second / 10)
	defer tick.Stop()
	for end := time.Now().Add(long); time.Now().Before(end); <-tick.C {
		for range rate / 10 {
			if _, err := f.ReadAt(buf, 0); err != nil {
				return n, err
			}
			n++
		}
		if _, err := os.Stat(stop); err == nil {
			break
		}
	}
	return n, nil
}
