/* SPDX-License-Identifier: MIT
 *
 * Latent error detection of IEEE 802.1CB-2017, 7.4.4: while n paths live, n - 1 copies are
 * discarded for each frame that passes; a path that has died in silence shows in the difference.
 */
#include <getopt.h>

#include "frerctl.h"

struct detection { /* IEEE 802.1CB-2017, 10.4.1.12 */
	__u64 period_ms;
	__u64 reset_ms;
	__u64 difference;
	__u32 paths;
};

static const struct option options[] = {
	{"period-ms", required_argument, NULL, 'p'},
	{"reset-ms", required_argument, NULL, 'r'},
	{"difference", required_argument, NULL, 'd'},
	{"paths", required_argument, NULL, 'n'},
	{NULL, 0, NULL, 0},
};

static void read_detection(int argc, char **argv, struct detection *detection)
{
	int option;

	optind = 1;
	while ((option = getopt_long(argc, argv, "", options, NULL)) != -1) {
		if (option == 'p')
			detection->period_ms = number(optarg, "--period-ms", 1, 3600000);
		else if (option == 'r')
			detection->reset_ms = number(optarg, "--reset-ms", 1, 3600000);
		else if (option == 'd')
			detection->difference = number(optarg, "--difference", 0, 1000000000);
		else if (option == 'n')
			detection->paths = number(optarg, "--paths", 1, FRER_MAX_PATHS);
		else
			die("unknown option; latent takes --period-ms, --reset-ms, --difference "
			    "and --paths");
	}
	if (optind < argc)
		die("'%s' is one word too many", argv[optind]);
}

/* CurBaseDifference as it would be now. */
static __s64 difference_now(const struct running *found, __u32 stream, __u32 paths,
			    struct recovery_value *state)
{
	read_value(found->recovery, stream, state, "the recovery state");
	return (__s64)(state->counters[FRER_PASSED] * (paths - 1)) -
	       (__s64)state->counters[FRER_DISCARDED];
}

/* LATENT_ERROR_RESET */
static void reset_base(const struct running *found, __u32 stream, const struct detection *detection,
		       bool first)
{
	struct recovery_value state;
	struct latent latent = {};

	if (!first)
		read_value(found->latent, stream, &latent, "the state of latent error detection");
	latent.base = difference_now(found, stream, detection->paths, &state);
	latent.resets += !first;
	write_value(found->latent, stream, &latent, "the state of latent error detection");
}

static void print_alarm(__u32 stream, const struct latent *latent,
			const struct recovery_value *state)
{
	printf("{\"event\": \"latent error\", \"time_ns\": %llu, \"stream\": %u, "
	       "\"difference\": %llu, \"base\": %lld, \"passed\": %llu, \"discarded\": %llu}\n",
	       latent->tested_ns, stream, latent->difference, latent->base,
	       state->counters[FRER_PASSED], state->counters[FRER_DISCARDED]);
	fflush(stdout);
}

/* LatentErrorTest */
static void test_stream(const struct running *found, __u32 stream,
			const struct detection *detection)
{
	struct recovery_value state;
	struct latent latent;
	__s64 now = difference_now(found, stream, detection->paths, &state);

	read_value(found->latent, stream, &latent, "the state of latent error detection");
	latent.difference = llabs(latent.base - now);
	latent.error = latent.difference > detection->difference;
	latent.alarms += latent.error;
	latent.tests++;
	latent.tested_ns = clock_ns(CLOCK_TAI);
	write_value(found->latent, stream, &latent, "the state of latent error detection");
	if (latent.error)
		print_alarm(stream, &latent, &state);
}

static void sleep_until(__u64 ns)
{
	struct timespec end = {.tv_sec = ns / 1000000000, .tv_nsec = ns % 1000000000};

	while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &end, NULL) == EINTR)
		;
}

static void for_each_stream(const struct running *found, const struct detection *detection,
			    bool reset, bool first)
{
	struct switch_config config = get_config(found->config);
	__u32 stream;

	for (stream = 0; stream < config.streams; stream++) {
		if (!config.stream[stream].frer)
			continue;
		if (reset)
			reset_base(found, stream, detection, first);
		else
			test_stream(found, stream, detection);
	}
}

void command_latent(const char *device, int argc, char **argv)
{
	struct running found = find_switch(device);
	struct detection detection = {.period_ms = 2000, .reset_ms = 30000, .difference = 100};
	__u64 test, reset;

	detection.paths = get_config(found.config).paths;
	read_detection(argc, argv, &detection);
	if (!detection.paths)
		die("'%s' is a listener's, which has one link: say --paths", device);
	for_each_stream(&found, &detection, true, true);
	test = clock_ns(CLOCK_MONOTONIC) + detection.period_ms * 1000000;
	reset = clock_ns(CLOCK_MONOTONIC) + detection.reset_ms * 1000000;
	printf("{\"event\": \"started\", \"time_ns\": %llu, \"paths\": %u, \"period_ms\": %llu, "
	       "\"reset_ms\": %llu, \"allowed_difference\": %llu}\n",
	       clock_ns(CLOCK_TAI), detection.paths, detection.period_ms, detection.reset_ms,
	       detection.difference);
	fflush(stdout);
	while (!ferror(stdout)) {
		/* Where both fall on one moment the test comes first: the reset forgives what the
		 * period before it has brought. */
		if (reset < test) {
			sleep_until(reset);
			reset += detection.reset_ms * 1000000;
			for_each_stream(&found, &detection, true, false);
		} else {
			sleep_until(test);
			test += detection.period_ms * 1000000;
			for_each_stream(&found, &detection, false, false);
		}
	}
}
