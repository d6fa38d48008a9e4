package versus

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// coldEnv has BenchmarkWeight build opsim with an empty cache, too.
const coldEnv = "WEIGHT_COLD"

// BenchmarkWeight prints what opsim weighs: packages, bytes, the time to its first answer, memory without work.
// WEIGHT_COLD=1 adds the CPU time of a build from nothing, which takes that long.
func BenchmarkWeight(b *testing.B) {
	packages := strings.Fields(output(b, exec.CommandContext(b.Context(), "go", "list", "-deps", opsim)))
	b.ReportMetric(float64(len(packages)), "packages")
	dir := b.TempDir()
	binary := filepath.Join(dir, "opsim")
	output(b, exec.CommandContext(b.Context(), "go", "build", "-o", binary, opsim))
	b.ReportMetric(mebibytes(b, binary), "MiB-binary")
	small := filepath.Join(dir, "opsim-stripped")
	output(b, exec.CommandContext(b.Context(), "go", "build", "-ldflags=-s -w", "-o", small, opsim))
	b.ReportMetric(mebibytes(b, small), "MiB-stripped")
	var starts, cpu, idle []float64
	for range 5 {
		start, used, memory := startOpsim(b, binary)
		starts, cpu, idle = append(starts, start), append(cpu, used), append(idle, memory)
	}
	slices.Sort(starts)
	slices.Sort(cpu)
	slices.Sort(idle)
	b.ReportMetric(cpu[len(cpu)/2]*1000, "cpu-ms-start")
	b.ReportMetric(starts[0]*1000, "ms-start-least")
	b.ReportMetric(starts[len(starts)/2]*1000, "ms-start-median")
	b.ReportMetric(idle[len(idle)/2], "MiB-idle")
	if os.Getenv(coldEnv) != "" {
		b.ReportMetric(coldBuild(b, filepath.Join(dir, "cold")), "cpu-s-cold-build")
	}
	b.ReportMetric(0, "ns/op") // leaves it out
}

const opsim = "github.com/opreplay/opreplay/cmd/opsim"

// output runs a command and gives its output.
func output(b testing.TB, cmd *exec.Cmd) string {
	b.Helper()
	var problems strings.Builder
	cmd.Stderr = &problems
	out, err := cmd.Output()
	if err != nil {
		b.Fatalf("%s: %v: %s", cmd, err, problems.String())
	}
	return string(out)
}

func mebibytes(b testing.TB, file string) float64 {
	b.Helper()
	info, err := os.Stat(file)
	if err != nil {
		b.Fatal(err)
	}
	return float64(info.Size()) / (1 << 20)
}

// startOpsim starts an empty world and gives the seconds until it says where it listens, and what it used until
// then: CPU seconds, memory.
func startOpsim(b testing.TB, binary string) (seconds, cpu, memory float64) {
	b.Helper()
	begin := time.Now()
	cmd := exec.CommandContext(b.Context(), binary, "serve", "--writable", "-o", "json")
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		b.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		b.Fatal(err)
	}
	defer func() {
		_ = cmd.Process.Signal(os.Interrupt)
		_ = cmd.Wait()
	}()
	if _, err := bufio.NewReader(out).ReadString('\n'); err != nil {
		b.Fatalf("opsim serve says nothing: %v", err)
	}
	s := &server{pids: []int{cmd.Process.Pid}}
	return time.Since(begin).Seconds(), s.cpu(b).Seconds(), s.memory(b)
}

// coldBuild builds opsim with an empty cache and gives the CPU seconds.
func coldBuild(b testing.TB, cache string) float64 {
	b.Helper()
	cmd := exec.CommandContext(b.Context(), "nice", "-n", "19", "go", "build", "-o", os.DevNull, opsim)
	cmd.Env = append(os.Environ(), "GOCACHE="+cache)
	fmt.Fprintln(os.Stderr, "building opsim from nothing …")
	if out, err := cmd.CombinedOutput(); err != nil {
		b.Fatalf("%s: %v: %s", cmd, err, out)
	}
	return (cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()).Seconds()
}
