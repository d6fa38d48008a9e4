// guest waits for signals in all the ways of POSIX, shares memory with a child, and polls in vain.
#define _GNU_SOURCE
#include <errno.h>
#include <linux/futex.h>
#include <poll.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/select.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static double now(void) {
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec + t.tv_nsec / 1e9 - 1000;
}

static volatile int hits, last;
static void on(int s) { hits++; last = s; }
static volatile int fired;
static void expired(union sigval v) { fired += v.sival_int; }

static void *waiter(void *p) {
	sigset_t s;
	sigemptyset(&s);
	sigaddset(&s, SIGUSR2);
	int sig = 0;
	sigwait(&s, &sig);
	printf("%.3f sigwait got %d\n", now(), sig);
	return NULL;
}

int main(void) {
	setvbuf(stdout, NULL, _IOLBF, 0);
	struct sigaction sa = {.sa_handler = on};
	sigaction(SIGUSR1, &sa, NULL);
	sigaction(SIGALRM, &sa, NULL);
	sigset_t s;
	sigemptyset(&s);
	sigaddset(&s, SIGUSR2);
	pthread_sigmask(SIG_BLOCK, &s, NULL);

	// A child that signals its parent, and a thread that waits for a signal.
	pthread_t w;
	pthread_create(&w, NULL, waiter, NULL);
	if (fork() == 0) {
		sleep(2);
		kill(getppid(), SIGUSR2);
		sleep(2);
		kill(getppid(), SIGUSR1);
		_exit(0);
	}
	pthread_join(w, NULL);
	pause();
	printf("%.3f pause, hits %d\n", now(), hits);
	wait(NULL);

	struct timespec two = {2, 0};
	int r = sigtimedwait(&s, NULL, &two);
	printf("%.3f sigtimedwait %d %d\n", now(), r, errno == EAGAIN);

	struct itimerval it = {{3, 0}, {3, 0}}, off = {{0}};
	setitimer(ITIMER_REAL, &it, NULL);
	sigset_t none;
	sigemptyset(&none);
	for (int i = 0; i < 3; i++) sigsuspend(&none);
	printf("%.3f sigsuspend, hits %d\n", now(), hits);
	struct timespec ten = {10, 0}, rem;
	r = nanosleep(&ten, &rem);
	printf("%.3f nanosleep %d rem %.1f\n", now(), r, rem.tv_sec + rem.tv_nsec / 1e9);
	setitimer(ITIMER_REAL, &off, NULL);

	struct sigevent ev = {.sigev_notify = SIGEV_THREAD, .sigev_notify_function = expired, .sigev_value.sival_int = 1};
	timer_t t;
	timer_create(CLOCK_MONOTONIC, &ev, &t);
	struct itimerspec its = {{1, 0}, {1, 0}};
	timer_settime(t, 0, &its, NULL);
	for (int i = 0; i < 5; i++) sleep(1);
	timer_delete(t);
	printf("%.3f timer threads %d\n", now(), fired >= 4);

	// A semaphore in memory shared with a child.
	sem_t *sem = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	sem_init(sem, 1, 0);
	if (fork() == 0) {
		sleep(7);
		sem_post(sem);
		_exit(5);
	}
	sem_wait(sem);
	int status;
	wait(&status);
	printf("%.3f semaphore, child %d\n", now(), WEXITSTATUS(status));
	struct timespec abs;
	clock_gettime(CLOCK_REALTIME, &abs);
	abs.tv_sec += 9;
	r = sem_timedwait(sem, &abs);
	printf("%.3f sem_timedwait %d\n", now(), errno == ETIMEDOUT);

	// Polling without a time-out until time has passed, without reading a clock.
	int e = eventfd(0, 0), spins = 0;
	if (fork() == 0) {
		sleep(1);
		uint64_t one = 1;
		write(e, &one, 8);
		_exit(0);
	}
	struct pollfd p = {e, POLLIN, 0};
	while (poll(&p, 1, 0) == 0) spins++;
	printf("%.0f polled %d\n", now(), spins > 1000);
	wait(NULL);
	fd_set in;
	FD_ZERO(&in);
	FD_SET(e, &in);
	struct timeval tv = {1, 0};
	r = select(e + 1, &in, NULL, NULL, &tv);
	uint64_t v;
	read(e, &v, 8);
	FD_SET(e, &in);
	int r2 = select(e + 1, &in, NULL, NULL, &tv);
	printf("select %d %d %d\n", r, r2, FD_ISSET(e, &in));

	// A Unix socket within the world: blocking accept and reads.
	struct sockaddr_un un = {AF_UNIX, "\0virtual-test"};
	int l = socket(AF_UNIX, SOCK_STREAM, 0);
	bind(l, (void *)&un, sizeof un);
	listen(l, 1);
	if (fork() == 0) {
		sleep(4);
		int c = socket(AF_UNIX, SOCK_STREAM, 0);
		connect(c, (void *)&un, sizeof un);
		sleep(4);
		write(c, "hi", 2);
		_exit(0);
	}
	int c = accept(l, NULL, NULL);
	char b[8];
	ssize_t n = read(c, b, sizeof b), n2 = read(c, b, sizeof b);
	printf("unix %zd %zd\n", n, n2);
	kill(-1, SIGKILL); // everybody but this process, in this world only
	abort();
}
