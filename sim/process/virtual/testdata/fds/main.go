// Command fds opens, closes, duplicates and reuses descriptors of several kinds.
package main

import (
	"fmt"
	"io"
	"net"
	"os"
	"syscall"
	"time"
)

func main() {
	for i := range 50 {
		c, err := net.Dial("tcp", "10.0.0.1:80")
		if err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
		fmt.Fprintf(c, "POST /%d HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\nConnection: close\r\n\r\nhi", i)
		b := make([]byte, 100)
		c.SetReadDeadline(time.Now().Add(time.Minute))
		n, err := c.Read(b)
		fmt.Println(i, c.LocalAddr(), c.RemoteAddr(), n, err)
		f, _ := c.(*net.TCPConn).File() // a copy, and then the number is used again
		c.Close()
		f.Close()
		r, w, _ := os.Pipe()
		w.WriteString("x")
		w.Close()
		x, _ := io.ReadAll(r)
		r.Close()
		if string(x) != "x" {
			fmt.Println("pipe", x)
		}
		l, err := net.Listen("tcp6", "[::1]:0")
		fmt.Println(l.Addr(), err)
		l.Close()
	}
	fd, err := syscall.Dup(1)
	fmt.Println("dup", err)
	syscall.Dup2(fd, 7)
	syscall.Write(7, []byte("through a copy\n"))
	syscall.Close(1)
	syscall.Dup2(7, 1)
	fmt.Println("end")
}
