// Command exe looks for its own program, by each way that there is, and starts itself again.
package main

import (
	"debug/elf"
	"fmt"
	"os"
	"os/exec"
)

func main() {
	if len(os.Args) > 1 {
		fmt.Println("started again:", os.Args[1])
		return
	}
	path, err := os.Executable()
	fmt.Println("executable", path, err)
	link, err := os.Readlink(fmt.Sprintf("/proc/%d/exe", os.Getpid()))
	fmt.Println("link", link, err)
	info, err := os.Stat(path)
	fmt.Println("mode", info.Mode(), info.Size() > 1<<20, err)
	f, err := elf.Open(path)
	fmt.Println("program", f != nil, err)
	found, err := exec.LookPath(path)
	fmt.Println("found", found, err)
	for _, p := range []string{path, "/proc/self/exe"} {
		out, err := exec.Command(p, p).CombinedOutput()
		fmt.Printf("%s%v\n", out, err)
	}
	link, err = os.Readlink("/proc/self/exe")
	fmt.Println("link", link, err)
}
