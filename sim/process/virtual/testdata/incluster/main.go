// Command incluster says what a pod can see of itself.
package main

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/user"
	"runtime"
	"time"
)

func main() {
	const dir = "/var/run/secrets/kubernetes.io/serviceaccount/"
	for _, name := range []string{"token", "ca.crt", "namespace"} {
		st, err := os.Stat(dir + name)
		if err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
		b, err := os.ReadFile(dir + name)
		fmt.Printf("%s: %s %d %v %q %v\n", name, st.Mode(), st.Size(), st.ModTime().UTC().Format(time.DateTime), b, err)
	}
	st, err := os.Stat(dir)
	fmt.Println(st.IsDir(), err)
	os.Chdir("/var/run")
	_, err = os.Stat(dir + "other")
	fmt.Println(err)
	_, err = os.OpenFile(dir+"token", os.O_RDWR, 0)
	fmt.Println(err)
	_, err = os.ReadFile("/etc/passwd")
	fmt.Println(err)
	host, _ := os.Hostname()
	u, err := user.Current()
	fmt.Println(host, os.Getpid(), os.Getppid(), os.Getuid(), u != nil, err != nil, runtime.NumCPU())
	ips, err := net.DefaultResolver.LookupHost(context.Background(), "api.example")
	fmt.Println(ips, err)
	_, err = net.Interfaces()
	fmt.Println(err)
	comm, err := os.ReadFile("/proc/1/comm")
	fmt.Printf("%q %v\n", comm, err)
}
