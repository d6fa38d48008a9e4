package virtual

import "golang.org/x/sys/unix"

// trap is a system call that stops in the supervisor.
type trap struct {
	nr   uint32
	name string
	when condition
	// handle answers it; nil lets the kernel do it (the stop itself is what matters: it is where a program or a
	// thread is seen for the first time).
	handle func(s *Supervisor, t *thread, a *[6]uint64)
}

// traps is the one table from which both the filter and the dispatch are made; what happens most comes first.
//
//nolint:funlen // a table
func traps() []trap {
	return []trap{
		// Waiting for other threads, for descriptors, for time.
		{unix.SYS_FUTEX, "futex", always, (*Supervisor).sysFutex},
		{unix.SYS_EPOLL_PWAIT, "epoll_pwait", mayWait, (*Supervisor).sysEpollWait},
		{unix.SYS_NANOSLEEP, "nanosleep", always, (*Supervisor).sysNanosleep},
		{unix.SYS_SCHED_YIELD, "sched_yield", always, (*Supervisor).sysYield},
		{unix.SYS_READ, "read", mayBlock, (*Supervisor).sysRead},
		{unix.SYS_WRITE, "write", mayBlock, (*Supervisor).sysWrite},
		{unix.SYS_WRITEV, "writev", mayBlock, (*Supervisor).sysWritev},
		{unix.SYS_EPOLL_WAIT, "epoll_wait", always, (*Supervisor).sysEpollWait},
		{unix.SYS_EPOLL_PWAIT2, "epoll_pwait2", always, (*Supervisor).sysEpollWait},
		{unix.SYS_CLOCK_NANOSLEEP, "clock_nanosleep", always, (*Supervisor).sysClockNanosleep},
		{unix.SYS_POLL, "poll", always, (*Supervisor).sysPoll},
		{unix.SYS_PPOLL, "ppoll", always, (*Supervisor).sysPoll},
		{unix.SYS_SELECT, "select", always, (*Supervisor).sysSelect},
		{unix.SYS_PSELECT6, "pselect6", always, (*Supervisor).sysSelect},
		{unix.SYS_READV, "readv", mayBlock, (*Supervisor).sysRead},
		{unix.SYS_RECVFROM, "recvfrom", mayBlock, (*Supervisor).sysRecv},
		{unix.SYS_RECVMSG, "recvmsg", mayBlock, (*Supervisor).sysRecv},
		{unix.SYS_SENDTO, "sendto", mayBlock, (*Supervisor).sysSend},
		{unix.SYS_SENDMSG, "sendmsg", notShim, (*Supervisor).sysSend},

		// Clocks: the vDSO's are replaced by code that needs no trap; these are for programs that go round it.
		{unix.SYS_CLOCK_GETTIME, "clock_gettime", always, (*Supervisor).sysClockGettime},
		{unix.SYS_GETTIMEOFDAY, "gettimeofday", always, (*Supervisor).sysGettimeofday},
		{unix.SYS_TIME, "time", always, (*Supervisor).sysTime},
		{unix.SYS_TIMERFD_CREATE, "timerfd_create", always, (*Supervisor).sysTimerfdCreate},
		{unix.SYS_TIMERFD_SETTIME, "timerfd_settime", always, (*Supervisor).sysTimerfdSettime},
		{unix.SYS_TIMERFD_GETTIME, "timerfd_gettime", always, (*Supervisor).sysTimerfdGettime},
		{unix.SYS_TIMER_CREATE, "timer_create", always, (*Supervisor).sysTimerCreate},
		{unix.SYS_TIMER_SETTIME, "timer_settime", always, (*Supervisor).sysTimerSettime},
		{unix.SYS_TIMER_GETTIME, "timer_gettime", always, (*Supervisor).sysTimerGettime},
		{unix.SYS_TIMER_GETOVERRUN, "timer_getoverrun", always, (*Supervisor).sysTimerGetoverrun},
		{unix.SYS_TIMER_DELETE, "timer_delete", always, (*Supervisor).sysTimerDelete},
		{unix.SYS_SETITIMER, "setitimer", always, (*Supervisor).sysSetitimer},
		{unix.SYS_GETITIMER, "getitimer", always, (*Supervisor).sysGetitimer},
		{unix.SYS_ALARM, "alarm", always, (*Supervisor).sysAlarm},

		// Descriptors that we must know: epoll sets, sockets, output.
		{unix.SYS_EPOLL_CREATE1, "epoll_create1", always, (*Supervisor).sysEpollCreate},
		{unix.SYS_EPOLL_CREATE, "epoll_create", always, (*Supervisor).sysEpollCreate},
		{unix.SYS_CLOSE, "close", always, (*Supervisor).sysClose},
		{unix.SYS_CLOSE_RANGE, "close_range", always, (*Supervisor).sysCloseRange},
		{unix.SYS_DUP, "dup", always, (*Supervisor).sysDup},
		{unix.SYS_DUP2, "dup2", always, (*Supervisor).sysDup2},
		{unix.SYS_DUP3, "dup3", always, (*Supervisor).sysDup2},
		{unix.SYS_FCNTL, "fcntl", dupOnly, (*Supervisor).sysFcntl},
		{unix.SYS_SOCKET, "socket", always, (*Supervisor).sysSocket},
		{unix.SYS_CONNECT, "connect", always, (*Supervisor).sysConnect},
		{unix.SYS_BIND, "bind", always, (*Supervisor).sysBind},
		{unix.SYS_LISTEN, "listen", always, (*Supervisor).sysListen},
		{unix.SYS_ACCEPT, "accept", always, (*Supervisor).sysAccept},
		{unix.SYS_ACCEPT4, "accept4", always, (*Supervisor).sysAccept},
		{unix.SYS_GETSOCKNAME, "getsockname", always, (*Supervisor).sysSockName},
		{unix.SYS_GETPEERNAME, "getpeername", always, (*Supervisor).sysSockName},
		{unix.SYS_SETSOCKOPT, "setsockopt", always, (*Supervisor).sysSetsockopt},
		{unix.SYS_GETSOCKOPT, "getsockopt", always, (*Supervisor).sysGetsockopt},
		{unix.SYS_SIGNALFD, "signalfd", always, (*Supervisor).sysSignalfd},
		{unix.SYS_SIGNALFD4, "signalfd4", always, (*Supervisor).sysSignalfd},

		// Files that exist for one process only.
		{unix.SYS_OPENAT, "openat", always, (*Supervisor).sysOpen},
		{unix.SYS_OPEN, "open", always, (*Supervisor).sysOpen},
		{unix.SYS_NEWFSTATAT, "newfstatat", always, (*Supervisor).sysStat},
		{unix.SYS_STAT, "stat", always, (*Supervisor).sysStat},
		{unix.SYS_LSTAT, "lstat", always, (*Supervisor).sysStat},
		{unix.SYS_STATX, "statx", always, (*Supervisor).sysStat},
		{unix.SYS_ACCESS, "access", always, (*Supervisor).sysStat},
		{unix.SYS_FACCESSAT, "faccessat", always, (*Supervisor).sysStat},
		{unix.SYS_FACCESSAT2, "faccessat2", always, (*Supervisor).sysStat},
		{unix.SYS_READLINK, "readlink", always, (*Supervisor).sysStat},
		{unix.SYS_READLINKAT, "readlinkat", always, (*Supervisor).sysStat},
		{unix.SYS_INOTIFY_ADD_WATCH, "inotify_add_watch", always, (*Supervisor).sysInotifyAddWatch},

		// Threads and processes.
		{unix.SYS_CLONE, "clone", always, (*Supervisor).sysClone},
		{unix.SYS_CLONE3, "clone3", always, (*Supervisor).sysClone},
		{unix.SYS_FORK, "fork", always, (*Supervisor).sysFork},
		{unix.SYS_VFORK, "vfork", always, (*Supervisor).sysFork},
		{unix.SYS_EXECVE, "execve", notShim, (*Supervisor).sysExec},
		{unix.SYS_EXECVEAT, "execveat", always, (*Supervisor).sysExec},
		{unix.SYS_EXIT, "exit", always, (*Supervisor).sysExit},
		{unix.SYS_EXIT_GROUP, "exit_group", always, (*Supervisor).sysExitGroup},
		{unix.SYS_WAIT4, "wait4", always, (*Supervisor).sysWait},
		{unix.SYS_WAITID, "waitid", always, (*Supervisor).sysWait},
		// First calls of a new program (static: arch_prctl, dynamic: brk) and of a new thread (glibc).
		{unix.SYS_ARCH_PRCTL, "arch_prctl", always, nil},
		{unix.SYS_BRK, "brk", always, nil},
		{unix.SYS_SET_ROBUST_LIST, "set_robust_list", always, nil},
		{unix.SYS_SET_TID_ADDRESS, "set_tid_address", always, (*Supervisor).sysSetTidAddress},
		{bootNr, "boot", always, nil},

		// Signals. A stop at a change of the mask keeps the thread that vfork releases from unblocking SIGCHLD before
		// the kernel has chosen who gets the one of the child that just failed to start.
		{unix.SYS_RT_SIGPROCMASK, "rt_sigprocmask", always, nil},
		{unix.SYS_KILL, "kill", always, (*Supervisor).sysKill},
		{unix.SYS_TKILL, "tkill", always, (*Supervisor).sysTkill},
		{unix.SYS_TGKILL, "tgkill", always, (*Supervisor).sysTkill},
		{unix.SYS_PIDFD_SEND_SIGNAL, "pidfd_send_signal", always, (*Supervisor).sysPidfdSendSignal},
		{unix.SYS_PAUSE, "pause", always, (*Supervisor).sysSigWait},
		{unix.SYS_RT_SIGSUSPEND, "rt_sigsuspend", always, (*Supervisor).sysSigWait},
		{unix.SYS_RT_SIGTIMEDWAIT, "rt_sigtimedwait", always, (*Supervisor).sysSigWait},

		// What a process sees of itself and of the machine.
		{unix.SYS_GETRANDOM, "getrandom", always, (*Supervisor).sysGetrandom},
		{unix.SYS_GETTID, "gettid", always, (*Supervisor).sysIdentity},
		{unix.SYS_GETPID, "getpid", always, (*Supervisor).sysIdentity},
		{unix.SYS_GETPPID, "getppid", always, (*Supervisor).sysIdentity},
		{unix.SYS_GETUID, "getuid", always, (*Supervisor).sysIdentity},
		{unix.SYS_GETEUID, "geteuid", always, (*Supervisor).sysIdentity},
		{unix.SYS_GETGID, "getgid", always, (*Supervisor).sysIdentity},
		{unix.SYS_GETEGID, "getegid", always, (*Supervisor).sysIdentity},
		{unix.SYS_GETGROUPS, "getgroups", always, (*Supervisor).sysIdentity},
		{unix.SYS_GETCPU, "getcpu", always, (*Supervisor).sysGetcpu},
		{unix.SYS_SCHED_GETAFFINITY, "sched_getaffinity", always, (*Supervisor).sysAffinity},
		{unix.SYS_SCHED_SETAFFINITY, "sched_setaffinity", always, (*Supervisor).sysZero},
		{unix.SYS_UNAME, "uname", always, (*Supervisor).sysUname},
		{unix.SYS_SYSINFO, "sysinfo", always, (*Supervisor).sysSysinfo},
		{unix.SYS_GETRUSAGE, "getrusage", always, (*Supervisor).sysRusage},
		{unix.SYS_TIMES, "times", always, (*Supervisor).sysTimes},

		// What works behind the supervisor's back.
		{unix.SYS_RSEQ, "rseq", denyNoSys, nil}, // shows the number of the real processor
		{unix.SYS_IO_URING_SETUP, "io_uring_setup", denyNoSys, nil},
		{unix.SYS_FUTEX_WAITV, "futex_waitv", denyNoSys, nil},
		{sysFutexWake, "futex_wake", denyNoSys, nil},
		{sysFutexWait, "futex_wait", denyNoSys, nil},
		{sysFutexRequeue, "futex_requeue", denyNoSys, nil},
		{unix.SYS_CLOCK_SETTIME, "clock_settime", denyAccess, nil},
		{unix.SYS_SETTIMEOFDAY, "settimeofday", denyAccess, nil},
	}
}

// Numbers of Linux 6.7 that x/sys names differently from release to release.
const (
	sysFutexWake    = 454
	sysFutexWait    = 455
	sysFutexRequeue = 456
)
