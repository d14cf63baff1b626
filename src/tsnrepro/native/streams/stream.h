/* SPDX-License-Identifier: MIT
 *
 * What talker, listener and stallmeter share: the payload, the logs, clocks, options.
 *
 * Payload, big-endian:       uint32 sequence number, uint64 send time in ns, zeros.
 * Log records, little-endian, 32 bytes:
 *   listener                 uint32 stream (the UDP port), uint32 sequence, uint64 sent_ns,
 *                            uint64 received_ns (program), uint64 stamped_ns (kernel or card)
 *   talker                   uint32 stream, uint32 sequence, uint64 slot_ns,
 *                            uint64 sent_ns, uint64 stamped_ns
 * A time of 0 is unknown.
 */
#ifndef TSNREPRO_STREAM_H
#define TSNREPRO_STREAM_H

#include <endian.h>
#include <errno.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/timex.h>

#include <linux/net_tstamp.h>

#include "../program.h"

#define HEAD_BYTES 12
#define MAX_PAYLOAD_BYTES 65507
#define CHUNK_RECORDS 65536

struct record {
	uint32_t stream;
	uint32_t sequence;
	uint64_t times_ns[3];
};
_Static_assert(sizeof(struct record) == 32, "readers of the log rely on 32 bytes");

enum stamps { STAMPS_NONE, STAMPS_SOFTWARE, STAMPS_HARDWARE, STAMPS_QUEUED };

/* --- signals and errors ------------------------------------------------------------------ */

static volatile sig_atomic_t stopped;

static inline void stop(int number)
{
	(void)number;
	stopped = 1;
}

static inline void stop_on_signals(void)
{
	/* Without SA_RESTART, so that a blocked call returns. */
	struct sigaction action = { .sa_handler = stop };

	sigaction(SIGTERM, &action, NULL);
	sigaction(SIGINT, &action, NULL);
}

static inline void *allocate(size_t bytes)
{
	void *memory = malloc(bytes);

	if (!memory)
		die("no memory for %zu bytes of log or payload", bytes);
	return memory;
}

/* How often each errno occurred. */
#define ERRORS 256
struct errors {
	uint64_t counts[ERRORS];
};

static inline void count_error(struct errors *errors, int number)
{
	errors->counts[number > 0 && number < ERRORS ? number : 0]++;
}

static inline void print_errors(const struct errors *errors)
{
	const char *comma = "";

	putchar('{');
	for (int i = 0; i < ERRORS; i++) {
		const char *name = strerrorname_np(i);
		if (!errors->counts[i])
			continue;
		printf("%s\"%s\": %" PRIu64, comma, name ? name : "unknown", errors->counts[i]);
		comma = ", ";
	}
	putchar('}');
}

/* --- clocks ------------------------------------------------------------------------------ */

struct named_clock {
	const char *name;
	clockid_t id;
};

static const struct named_clock clocks[] = {
	{ "tai", CLOCK_TAI },
	{ "realtime", CLOCK_REALTIME },
	{ "monotonic", CLOCK_MONOTONIC },
};
#define CLOCKS (sizeof(clocks) / sizeof(clocks[0]))

/* Return how far `clock` is ahead of CLOCK_REALTIME, the kernel's clock of time stamps. TAI is ahead by
 * whole seconds, so rounding removes the time between the two readings. */
static inline int64_t ahead_of_realtime(clockid_t clock)
{
	if (clock == CLOCK_REALTIME)
		return 0;
	uint64_t before = clock_ns(CLOCK_REALTIME);
	int64_t ahead = (int64_t)(clock_ns(clock) - before);
	if (clock != CLOCK_TAI)
		return ahead;
	int64_t second = (int64_t)SECOND_NS;
	return (ahead + (ahead < 0 ? -second : second) / 2) / second * second;
}

/* Return TAI minus UTC in seconds, as set in the kernel: 0 if no time service has set it. */
static inline int tai_offset_s(void)
{
	struct timex state = { .modes = 0 };

	return adjtimex(&state) < 0 ? 0 : state.tai;
}

/* Return how far `clock` is ahead of CLOCK_MONOTONIC: slewing moves both alike, so this changes only
 * when the clock is stepped. */
static inline int64_t ahead_of_monotonic(clockid_t clock)
{
	int64_t least = INT64_MAX;

	for (int i = 0; i < 5; i++) {
		uint64_t before = clock_ns(CLOCK_MONOTONIC);
		int64_t ahead = (int64_t)(clock_ns(clock) - before);
		if (ahead < least)
			least = ahead;
	}
	return least;
}

static inline void print_clocks(void)
{
	struct timespec resolution;

	clock_getres(CLOCK_TAI, &resolution);
	printf("{\"tai_ns\": %" PRIu64 ", \"realtime_ns\": %" PRIu64 ", \"monotonic_ns\": %" PRIu64
	       ", \"tai_offset_s\": %d, \"resolution_ns\": %" PRIu64 "}\n",
	       clock_ns(CLOCK_TAI), clock_ns(CLOCK_REALTIME), clock_ns(CLOCK_MONOTONIC),
	       tai_offset_s(), from_timespec(&resolution));
}

/* --- sockets ----------------------------------------------------------------------------- */

/* Open a UDP socket that uses one device only, or any if it is NULL. */
static inline int open_udp(const char *device)
{
	int fd = socket(AF_INET, SOCK_DGRAM, 0);

	if (fd < 0)
		die("no UDP socket: %s", strerror(errno));
	if (device && setsockopt(fd, SOL_SOCKET, SO_BINDTODEVICE, device,
				 (socklen_t)strlen(device) + 1))
		die("the socket cannot be bound to device %s: %s", device, strerror(errno));
	return fd;
}

/*
 * Request a buffer (SO_SNDBUF, SO_RCVBUF), unless it is 0 bytes, and return its size. The kernel reserves
 * twice what is requested and reports what it reserved: `bytes` is on that scale, which is also that of
 * net.core.rmem_default. With CAP_NET_ADMIN `force` has no limit, without it the host's applies.
 */
static inline int set_buffer(int fd, int option, int force, uint64_t bytes)
{
	int half = (int)(bytes / 2), got;
	socklen_t length = sizeof(got);

	if (bytes && setsockopt(fd, SOL_SOCKET, force, &half, sizeof(half)))
		setsockopt(fd, SOL_SOCKET, option, &half, sizeof(half));
	if (getsockopt(fd, SOL_SOCKET, option, &got, &length))
		die("the size of a socket's buffer cannot be read: %s", strerror(errno));
	if ((uint64_t)got + 1 < bytes)
		die("the socket's buffer is %d bytes, not %" PRIu64 ": without CAP_NET_ADMIN it is at "
		    "most twice net.core.rmem_max or wmem_max", got, bytes);
	return got;
}

/* Enable time stamps (SOF_TIMESTAMPING_...). */
static inline void enable_stamps(int fd, int flags)
{
	if (setsockopt(fd, SOL_SOCKET, SO_TIMESTAMPING, &flags, sizeof(flags)))
		die("the kernel refuses time stamps (SO_TIMESTAMPING): %s", strerror(errno));
}

/* --- options ----------------------------------------------------------------------------- */

static inline const struct named_clock *parse_clock(const char *text)
{
	for (size_t i = 0; i < CLOCKS; i++)
		if (!strcmp(text, clocks[i].name))
			return &clocks[i];
	die("--clock takes tai, realtime or monotonic, not '%s'", text);
}

static inline enum stamps parse_stamps(const char *text)
{
	if (!strcmp(text, "software"))
		return STAMPS_SOFTWARE;
	if (!strcmp(text, "hardware"))
		return STAMPS_HARDWARE;
	die("--timestamps takes software or hardware, of a talker also queued, not '%s'", text);
}

static inline const char *stamp_clock(enum stamps stamps, const struct named_clock *clock)
{
	static const char *names[] = { [STAMPS_NONE] = "none", [STAMPS_HARDWARE] = "phc" };

	return stamps == STAMPS_SOFTWARE || stamps == STAMPS_QUEUED ? clock->name : names[stamps];
}

#endif
