// Command cgo uses threads, condition variables, sleeps and blocking reads of the C library.
package main

/*
#cgo LDFLAGS: -lpthread
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/time.h>
#include <sys/timerfd.h>
#include <poll.h>
#include <signal.h>
#include <time.h>
#include <unistd.h>

static pthread_mutex_t mu = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t cond = PTHREAD_COND_INITIALIZER;
static int turn, pipefd[2];

static void *worker(void *p) {
	long n = (long)p;
	for (int i = 0; i < 20; i++) {
		pthread_mutex_lock(&mu);
		while (turn % 4 != n) pthread_cond_wait(&cond, &mu);
		turn++;
		pthread_cond_broadcast(&cond);
		pthread_mutex_unlock(&mu);
		struct timespec ts = {0, 1000000 * (n + 1)};
		nanosleep(&ts, NULL);
	}
	return NULL;
}

static void *reader(void *p) {
	char b[4096];
	ssize_t n, all = 0;
	while ((n = read(pipefd[0], b, sizeof b)) > 0) all += n;
	return (void *)all;
}

static volatile int alarms;
static void on_alarm(int sig) { alarms++; }

static void run(void) {
	pthread_t t[4], r;
	pipe(pipefd);
	pthread_create(&r, NULL, reader, NULL);
	for (long i = 0; i < 4; i++) pthread_create(&t[i], NULL, worker, (void *)i);
	for (int i = 0; i < 4; i++) pthread_join(t[i], NULL);
	static char big[300000];
	ssize_t w = write(pipefd[1], big, sizeof big); // more than the pipe holds
	sleep(3);
	close(pipefd[1]);
	void *all;
	pthread_join(r, &all);

	struct timespec abs;
	clock_gettime(CLOCK_REALTIME, &abs);
	abs.tv_sec += 60;
	pthread_mutex_lock(&mu);
	int e = pthread_cond_timedwait(&cond, &mu, &abs);
	pthread_mutex_unlock(&mu);

	int tfd = timerfd_create(CLOCK_MONOTONIC, 0);
	struct itimerspec its = {{5, 0}, {10, 0}};
	timerfd_settime(tfd, 0, &its, NULL);
	unsigned long long ticks = 0, sum = 0;
	for (int i = 0; i < 5; i++) { read(tfd, &ticks, 8); sum += ticks; }
	struct pollfd pf = {tfd, POLLIN, 0};
	int pr = poll(&pf, 1, 1000), pr2 = poll(&pf, 1, 60000);

	struct sigaction sa = {0};
	sa.sa_handler = on_alarm;
	sigaction(SIGALRM, &sa, NULL);
	alarm(7);
	unsigned left = sleep(100);

	struct timeval tv;
	struct timespec res, mono, real;
	gettimeofday(&tv, NULL);
	clock_gettime(CLOCK_MONOTONIC, &mono);
	clock_gettime(CLOCK_REALTIME, &real);
	clock_getres(CLOCK_MONOTONIC, &res);
	printf("cpu %d res %ld since boot %ld equal %d %d micros %d\n", sched_getcpu(), res.tv_nsec, (long)(real.tv_sec - mono.tv_sec),
		tv.tv_sec == real.tv_sec, time(NULL) == real.tv_sec, tv.tv_usec < 1000000 && tv.tv_usec <= real.tv_nsec / 1000);
	unsigned rnd;
	getrandom(&rnd, sizeof rnd, 0);
	printf("turn %d write %zd read %ld timedwait %d timerfd %llu poll %d %d alarm %d left %u random %08x time %ld\n",
		turn, w, (long)all, e, sum, pr, pr2, alarms, left, rnd, (long)time(NULL));
	fflush(stdout);
}
*/
import "C"

import (
	"fmt"
	"time"
)

func main() {
	start := time.Now()
	done := make(chan bool)
	go func() {
		time.Sleep(time.Minute)
		close(done)
	}()
	C.run()
	<-done
	fmt.Println("took", time.Since(start).Round(time.Second))
}
