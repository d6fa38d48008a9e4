package recorder

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
)

// How container runtimes and kubelets name cgroups, of version 1 and 2, by systemd's driver and by cgroupfs.
func TestCgroupNames(t *testing.T) {
	const (
		id  = "4f2a9c0d1e5b6a7f8091a2b3c4d5e6f70112233445566778899aabbccddeeff0"
		uid = "0a1b2c3d-4e5f-6071-8293-a4b5c6d7e8f9"
	)
	systemd := "/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod" + strings.ReplaceAll(uid, "-", "_") + ".slice"
	cgroupfs := "/kubepods/besteffort/pod" + uid
	for _, c := range []struct {
		group                  string
		inContainer, inThisPod bool
	}{
		{"/docker/" + id, true, false},
		{"/system.slice/docker-" + id + ".scope", true, false},
		{"/machine.slice/libpod-" + id + ".scope/container", true, false},
		{systemd + "/cri-containerd-" + id + ".scope", true, true},
		{systemd + "/crio-" + id + ".scope", true, true},
		{systemd + "/crio-conmon-" + id + ".scope", false, true},
		{cgroupfs + "/" + id, true, true},
		{cgroupfs + "/" + id + "/nested", true, true},
		{"/../../" + cgroupfs[1:] + "/" + id, true, true}, // seen from another cgroup namespace
		{cgroupfs, false, true},
		{cgroupfs + "0/" + strings.ToUpper(id), false, false},
		{"/kubepods/pod" + uid, false, true}, // guaranteed
		{"/user.slice/user-1000.slice", false, false},
		{"/", false, false},
		{"", false, false},
	} {
		choice := Choice{Container: id[:12]}
		if got := choice.inContainer(c.group); got != c.inContainer {
			t.Errorf("%s is in the container: %t", c.group, got)
		}
		if got := inPod(c.group, uid); got != c.inThisPod {
			t.Errorf("%s is in the pod: %t", c.group, got)
		}
	}
	if named := (Choice{Container: "my-container"}); !named.inContainer("/default/my-container") || named.inContainer("/default/not-my-container") {
		t.Error("a container by a name of its own")
	}
}

func TestProcessOfOurOwn(t *testing.T) {
	pid := os.Getpid()
	if _, ok := startOf(pid); !ok {
		t.Error("this process has no start")
	}
	exe, err := exeOf(pid)
	if err != nil {
		t.Fatal(err)
	}
	if name := exe[strings.LastIndexByte(exe, '/')+1:]; !called(pid, name) || called(pid, "other") {
		t.Errorf("this process is not called %s", name)
	}
	if len(cgroups(pid)) == 0 {
		t.Error("this process is in no cgroup")
	}
}

// A process that was chosen by its name is not looked at once it has become another program.
func TestInstancesThatBecomeAnotherProgram(t *testing.T) {
	cmd := exec.Command("/bin/sh", "-c", "echo; read -r go; exec cat")
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _, _ = in.Close(), cmd.Wait() })
	lines := bufio.NewScanner(out)
	lines.Scan()
	var notes []string
	o := &Options{Note: func(format string, args ...any) { notes = append(notes, fmt.Sprintf(format, args...)) }, Choice: Choice{Comm: "sh"}}
	f := newFinder(&session{o: o}, &profiler{instances: map[int]*instance{}}, o.Choice.rule(nil))
	pid := cmd.Process.Pid
	f.judge(pid)
	if len(notes) != 1 || !strings.Contains(notes[0], "no Go program") {
		t.Fatalf("of the shell: %q", notes)
	}
	if _, err := in.Write([]byte("go\nit is cat that says this\n")); err != nil {
		t.Fatal(err)
	}
	lines.Scan()
	if f.judge(pid); len(notes) != 1 || f.known[pid].chosen {
		t.Errorf("of what it became: %q", notes[1:])
	}
}
