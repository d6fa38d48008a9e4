package symbols

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"sort"
	"strconv"
	"strings"

	"github.com/opreplay/opreplay/traces"
)

// ErrKernelHidden says that the kernel shows no addresses of its functions: that takes CAP_SYSLOG
// (kernel.kptr_restrict, proc_kallsyms(5)).
var ErrKernelHidden = errors.New("the kernel hides its functions' addresses: naming them needs CAP_SYSLOG")

// Kernel names the kernel's functions.
type Kernel struct {
	addrs []uint64
	names []string
}

// OpenKernel reads /proc/kallsyms.
func OpenKernel() (*Kernel, error) {
	f, err := os.Open("/proc/kallsyms")
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }()
	return readKernel(f)
}

func readKernel(r io.Reader) (*Kernel, error) {
	k := &Kernel{}
	lines := bufio.NewScanner(r)
	for n := 1; lines.Scan(); n++ {
		f := strings.Fields(lines.Text())
		if len(f) < 3 {
			return nil, fmt.Errorf("line %d of the kernel's symbols is %q", n, lines.Text())
		}
		addr, err := strconv.ParseUint(f[0], 16, 64)
		if err != nil {
			return nil, fmt.Errorf("line %d of the kernel's symbols: %w", n, err)
		}
		if addr != 0 && strings.ContainsAny(f[1], "tTwW") { // code
			k.addrs, k.names = append(k.addrs, addr), append(k.names, f[2])
		}
	}
	if err := lines.Err(); err != nil {
		return nil, err
	}
	if len(k.addrs) == 0 {
		return nil, ErrKernelHidden
	}
	sort.Stable(k)
	return k, nil
}

func (k *Kernel) Len() int           { return len(k.addrs) }
func (k *Kernel) Less(i, j int) bool { return k.addrs[i] < k.addrs[j] }
func (k *Kernel) Swap(i, j int) {
	k.addrs[i], k.addrs[j] = k.addrs[j], k.addrs[i]
	k.names[i], k.names[j] = k.names[j], k.names[i]
}

// Frame names the kernel function that PC lies in, or "?" below the first.
func (k *Kernel) Frame(pc uint64) traces.Frame {
	i := sort.Search(len(k.addrs), func(i int) bool { return k.addrs[i] > pc }) - 1
	if i < 0 {
		return traces.Frame{Function: "?"}
	}
	return traces.Frame{Function: k.names[i]}
}
