/* SPDX-License-Identifier: MIT
 *
 * What talker and listener share: the payload's head, the log's records, clocks, options.
 *
 * Payload, big-endian:       uint32 sequence number, uint64 send time in ns, then zeros.
 * Log records, little-endian, 32 bytes:
 *   listener                 uint32 stream (the UDP port), uint32 sequence, uint64 sent_ns,
 *                            uint64 received_ns (program), uint64 stamped_ns (kernel or card)
 *   talker                   uint32 stream, uint32 sequence, uint64 wanted_ns,
 *                            uint64 sent_ns, uint64 stamped_ns
 * A time of 0 says that there is none.
 */
#ifndef TSNREPRO_STREAM_H
#define TSNREPRO_STREAM_H

#include <endian.h>
#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/timex.h>
#include <time.h>

#include <linux/net_tstamp.h>

#define NS_PER_S 1000000000ULL
#define HEAD_BYTES 12
#define MAX_PAYLOAD_BYTES 65507
#define CHUNK_RECORDS 65536

struct record {
	uint32_t stream;
	uint32_t sequence;
	uint64_t times_ns[3];
};
_Static_assert(sizeof(struct record) == 32, "the log's readers count on 32 bytes");

enum stamps { STAMPS_NONE, STAMPS_SOFTWARE, STAMPS_HARDWARE };

/* --- ending and failing ------------------------------------------------------------------ */

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

__attribute__((format(printf, 1, 2), noreturn)) static inline void fail(const char *format, ...)
{
	va_list arguments;

	va_start(arguments, format);
	vfprintf(stderr, format, arguments);
	va_end(arguments);
	fputc('\n', stderr);
	exit(1);
}

static inline void *allocate(size_t bytes)
{
	void *memory = malloc(bytes);

	if (!memory)
		fail("no memory for %zu bytes of log or payload", bytes);
	return memory;
}

/* How often each errno came. */
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

static inline uint64_t read_clock(clockid_t id)
{
	struct timespec now;

	clock_gettime(id, &now);
	return (uint64_t)now.tv_sec * NS_PER_S + (uint64_t)now.tv_nsec;
}

static inline uint64_t from_timespec(const struct timespec *time)
{
	return (uint64_t)time->tv_sec * NS_PER_S + (uint64_t)time->tv_nsec;
}

static inline struct timespec to_timespec(uint64_t ns)
{
	return (struct timespec){ .tv_sec = (time_t)(ns / NS_PER_S),
				  .tv_nsec = (long)(ns % NS_PER_S) };
}

/* How far `clock` is ahead of CLOCK_REALTIME, in which the kernel stamps. TAI is ahead by whole
 * seconds, so rounding takes out the time between the two readings. */
static inline int64_t ahead_of_realtime(clockid_t clock)
{
	if (clock == CLOCK_REALTIME)
		return 0;
	uint64_t before = read_clock(CLOCK_REALTIME);
	int64_t ahead = (int64_t)(read_clock(clock) - before);
	if (clock != CLOCK_TAI)
		return ahead;
	int64_t second = (int64_t)NS_PER_S;
	return (ahead + (ahead < 0 ? -second : second) / 2) / second * second;
}

/* Seconds from UTC to TAI as the kernel knows them: 0 where no time service has told it. */
static inline int tai_offset_s(void)
{
	struct timex state = { .modes = 0 };

	return adjtimex(&state) < 0 ? 0 : state.tai;
}

/* Slewing moves both clocks alike, so their difference changes when the clock is stepped only. */
static inline int64_t ahead_of_monotonic(clockid_t clock)
{
	int64_t least = INT64_MAX;

	for (int i = 0; i < 5; i++) {
		uint64_t before = read_clock(CLOCK_MONOTONIC);
		int64_t ahead = (int64_t)(read_clock(clock) - before);
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
	       read_clock(CLOCK_TAI), read_clock(CLOCK_REALTIME), read_clock(CLOCK_MONOTONIC),
	       tai_offset_s(), from_timespec(&resolution));
}

/* --- options ----------------------------------------------------------------------------- */

static inline uint64_t parse_number(const char *option, const char *text, uint64_t least,
				    uint64_t most)
{
	char *end;

	errno = 0;
	uint64_t value = strtoull(text, &end, 10);
	if (errno || end == text || *end || text[0] == '-' || value < least || value > most)
		fail("--%s takes a whole number from %" PRIu64 " to %" PRIu64 ", not '%s'", option,
		     least, most, text);
	return value;
}

static inline uint64_t parse_seconds(const char *text)
{
	char *end;
	double value = strtod(text, &end);

	if (end == text || *end || !(value > 0) || value > 1e9)
		fail("--seconds takes a number above 0 (and up to 1e9), not '%s'", text);
	return (uint64_t)(value * (double)NS_PER_S);
}

static inline const struct named_clock *parse_clock(const char *text)
{
	for (size_t i = 0; i < CLOCKS; i++)
		if (!strcmp(text, clocks[i].name))
			return &clocks[i];
	fail("--clock takes tai, realtime or monotonic, not '%s'", text);
}

static inline enum stamps parse_stamps(const char *text)
{
	if (!strcmp(text, "software"))
		return STAMPS_SOFTWARE;
	if (!strcmp(text, "hardware"))
		return STAMPS_HARDWARE;
	fail("--timestamps takes software or hardware, not '%s'", text);
}

static inline const char *stamp_clock(enum stamps stamps, const struct named_clock *clock)
{
	static const char *names[] = { [STAMPS_NONE] = "none", [STAMPS_HARDWARE] = "phc" };

	return stamps == STAMPS_SOFTWARE ? clock->name : names[stamps];
}


#endif
