/* SPDX-License-Identifier: MIT
 *
 * What the programs have in common: options and --help, error messages, clocks.
 */
#ifndef TSNREPRO_PROGRAM_H
#define TSNREPRO_PROGRAM_H

#include <inttypes.h>
#include <stdint.h>
#include <time.h>

#define SECOND_NS 1000000000ULL

/* --- errors ------------------------------------------------------------------------------ */

/* Print "PROGRAM: message" on standard error and exit with status 1. */
void die(const char *format, ...) __attribute__((format(printf, 1, 2), noreturn));

/* --- options ----------------------------------------------------------------------------- */

/* A long option; a list of them ends with one without a name. */
struct known_option {
	const char *name;
	const char *value; /* placeholder of the value in --help; NULL: the option has no value */
	const char *text;  /* its unit, range and default included */
};

enum { MOST_OPTION_GROUPS = 6 };

/* What --help prints, in this order. */
struct help {
	const char *purpose;
	const char *usage; /* one line for each way to run the program, without "usage:" */
	struct {
		const char *title;
		const struct known_option *options;
	} groups[MOST_OPTION_GROUPS];
	const char *example;
};

/*
 * Return the index in `known` of the next option, whose value is in optarg, or -1 after the last.
 * Does what --help and --version ask for; ends the program with a message at an option that is
 * unknown or lacks its value, and at an operand beyond the first `operands`.
 */
int next_option(int argc, char **argv, const struct known_option *known, const struct help *help,
		int operands);

/* Parse a decimal number, or end the program with a message that names `what`. */
uint64_t number(const char *text, const char *what, uint64_t low, uint64_t high);

/* Parse a positive number of seconds, fractions allowed, and return nanoseconds. */
uint64_t seconds(const char *text, const char *what);

/* --- clocks ------------------------------------------------------------------------------ */

static inline uint64_t from_timespec(const struct timespec *time)
{
	return (uint64_t)time->tv_sec * SECOND_NS + (uint64_t)time->tv_nsec;
}

static inline struct timespec to_timespec(uint64_t ns)
{
	return (struct timespec){
		.tv_sec = (time_t)(ns / SECOND_NS),
		.tv_nsec = (long)(ns % SECOND_NS),
	};
}

static inline uint64_t clock_ns(clockid_t clock)
{
	struct timespec now;

	clock_gettime(clock, &now);
	return from_timespec(&now);
}

/* Sleep until a time of a clock; a signal may end the sleep early. */
static inline void sleep_until(clockid_t clock, uint64_t ns)
{
	struct timespec end = to_timespec(ns);

	clock_nanosleep(clock, TIMER_ABSTIME, &end, NULL);
}

#endif
