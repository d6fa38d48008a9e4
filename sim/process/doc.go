// Package process runs an operator's own binary, unmodified, by the wall clock: Wall, by os/exec, on any platform, no
// determinism promised. Package virtual, below it, is the other way: under a virtual clock, stepped by the world. What
// both need of a command and of an end (Split, LogTo, Exit) is here too.
//
//	argv, err := process.Split(`./manager --kubeconfig={kubeconfig} --metrics-bind-address=0`)
//	p, err := process.Wall{}.Start(process.Spec{
//		Name:       "manager",
//		Command:    argv,
//		Kubeconfig: "/run/kubeconfig",
//		Home:       "/run/home",
//		Output:     process.LogTo(out, "manager", clock),
//	})
//	<-p.Done()               // or p.Stop(10 * time.Second)
//	fmt.Println(p.Exit())    // "exit code 0", "killed by SIGKILL (by opsim)", …
//
// # What the process sees
//
// Its environment is fixed, so that a run does not hang on the shell that it was started from: KUBECONFIG, PATH,
// HOME and TMPDIR (a folder of the run), HOSTNAME and POD_NAME (its name with -0), POD_NAMESPACE, TZ, LANG, and
// what Spec.Env adds. {kubeconfig} in an argument becomes the file's path, for operators that
// take it only by a flag of their own. Standard input is empty.
//
// The process leads a process group. Stop asks the leader by SIGTERM, as a kubelet does, and what is left
// of the group after the grace period is killed. On Linux the operator is killed when opsim dies.
package process
