/* Loaded into sockperf's client: its wait before the test made short, and lost answers survived.
 *
 * Between the datagrams that it sends ahead and its test sockperf calls sleep(2), whatever its
 * options. No request is under way then and none is timed, so for trials of a second the wait is
 * most of their time and none of their result. The datagrams ahead have 50 ms to come back.
 *
 * In mode ping-pong it waits for an answer until the test ends, whatever its option --timeout. With
 * RESEND_MS in the environment a request without an answer for so long is sent again; an answer to
 * an earlier request is disregarded. How many were sent again is printed at the end. */
#include <dlfcn.h>
#include <errno.h>
#include <poll.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { SEQUENCE_BYTES = 8, MAX_REQUEST_BYTES = 65536 };

static int resend_ms;
static unsigned long resent;
static struct {
	int fd, flags;
	size_t bytes;
	struct sockaddr_storage to;
	socklen_t to_bytes;
	char data[MAX_REQUEST_BYTES];
} last;

static ssize_t (*real_sendto)(int, const void *, size_t, int, const struct sockaddr *, socklen_t);
static ssize_t (*real_recvfrom)(int, void *, size_t, int, struct sockaddr *, socklen_t *);

unsigned int sleep(unsigned int seconds)
{
	struct timespec wait = {.tv_nsec = 50 * 1000 * 1000};

	if (seconds)
		nanosleep(&wait, NULL);
	return 0;
}

__attribute__((constructor)) static void begin(void)
{
	const char *given = getenv("RESEND_MS");

	resend_ms = given ? atoi(given) : 0;
	*(void **)&real_sendto = dlsym(RTLD_NEXT, "sendto");
	*(void **)&real_recvfrom = dlsym(RTLD_NEXT, "recvfrom");
}

__attribute__((destructor)) static void end(void)
{
	if (resend_ms > 0)
		fprintf(stderr, "requests sent again: %lu\n", resent);
}

ssize_t sendto(int fd, const void *data, size_t bytes, int flags, const struct sockaddr *to,
	       socklen_t to_bytes)
{
	if (resend_ms > 0 && bytes <= sizeof(last.data) && to_bytes <= sizeof(last.to)) {
		last.fd = fd;
		last.flags = flags;
		last.bytes = bytes;
		last.to_bytes = to_bytes;
		memcpy(last.data, data, bytes);
		if (to)
			memcpy(&last.to, to, to_bytes);
	}
	return real_sendto(fd, data, bytes, flags, to, to_bytes);
}

/* Wait until an answer can be read, and send the request again as often as none comes. */
static int await_answer(int fd)
{
	struct pollfd readable = {.fd = fd, .events = POLLIN};
	int ready;

	while (!(ready = poll(&readable, 1, resend_ms))) {
		real_sendto(fd, last.data, last.bytes, last.flags,
			    last.to_bytes ? (struct sockaddr *)&last.to : NULL, last.to_bytes);
		resent++;
	}
	return ready;
}

ssize_t recvfrom(int fd, void *data, size_t bytes, int flags, struct sockaddr *from,
		 socklen_t *from_bytes)
{
	bool awaited = resend_ms > 0 && last.bytes >= SEQUENCE_BYTES && fd == last.fd &&
		       !(flags & MSG_DONTWAIT);
	socklen_t room = from_bytes ? *from_bytes : 0;
	ssize_t got;

	for (;;) {
		/* The timer that ends the test interrupts it. */
		if (awaited && await_answer(fd) < 0)
			return -1;
		got = real_recvfrom(fd, data, bytes, flags, from, from_bytes);
		if (!awaited || got < SEQUENCE_BYTES || !memcmp(data, last.data, SEQUENCE_BYTES))
			return got;
		if (from_bytes)
			*from_bytes = room;
	}
}
