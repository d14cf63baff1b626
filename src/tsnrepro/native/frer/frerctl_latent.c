/* SPDX-License-Identifier: MIT
 *
 * Latent error detection of IEEE 802.1CB-2017, 7.4.4: while n paths live, n - 1 copies are
 * discarded for each frame that passes; a path that fails silently shows in the difference.
 */
#include "frerctl_commands.h"
#include "frerctl_maps.h"
#include "frerctl_options.h"

/* CurBaseDifference as it would be now. */
static __s64 difference_now(const struct maps *maps, __u32 stream, __u32 paths,
			    struct recovery_value *state)
{
	read_value(maps->recovery, stream, state, "the recovery state");
	return (__s64)(state->counters[FRER_PASSED] * (paths - 1)) -
	       (__s64)state->counters[FRER_DISCARDED];
}

/* LATENT_ERROR_RESET */
static void reset_base(const struct maps *maps, __u32 stream, const struct detection *detection,
		       bool first)
{
	struct recovery_value state;
	struct latent latent = {};

	if (!first)
		read_value(maps->latent, stream, &latent, "the state of latent error detection");
	latent.base = difference_now(maps, stream, detection->paths, &state);
	latent.resets += !first;
	write_value(maps->latent, stream, &latent, "the state of latent error detection");
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
static void test_stream(const struct maps *maps, __u32 stream,
			const struct detection *detection)
{
	struct recovery_value state;
	struct latent latent;
	__s64 now = difference_now(maps, stream, detection->paths, &state);

	read_value(maps->latent, stream, &latent, "the state of latent error detection");
	latent.difference = llabs(latent.base - now);
	latent.error = latent.difference > detection->difference;
	latent.alarms += latent.error;
	latent.tests++;
	latent.tested_ns = clock_ns(CLOCK_TAI);
	write_value(maps->latent, stream, &latent, "the state of latent error detection");
	if (latent.error)
		print_alarm(stream, &latent, &state);
}

static void wait_until(__u64 ns)
{
	while (clock_ns(CLOCK_MONOTONIC) < ns)
		sleep_until(CLOCK_MONOTONIC, ns);
}

static void for_each_stream(const struct maps *maps, const struct detection *detection,
			    bool reset, bool first)
{
	struct switch_config config = read_config(maps->config);
	__u32 stream;

	for (stream = 0; stream < config.streams; stream++) {
		if (!config.stream[stream].frer)
			continue;
		if (reset)
			reset_base(maps, stream, detection, first);
		else
			test_stream(maps, stream, detection);
	}
}

void command_latent(int argc, char **argv)
{
	struct maps maps = find_switch(argv[0]);
	struct detection detection = {.period_ms = 2000, .reset_ms = 30000, .difference = 100};
	__u64 test, reset;

	detection.paths = read_config(maps.config).paths;
	read_detection(argc, argv, &detection);
	if (!detection.paths)
		die("'%s' is a listener's port, which is one link: give --paths", argv[0]);
	for_each_stream(&maps, &detection, true, true);
	test = clock_ns(CLOCK_MONOTONIC) + detection.period_ms * 1000000;
	reset = clock_ns(CLOCK_MONOTONIC) + detection.reset_ms * 1000000;
	printf("{\"event\": \"started\", \"time_ns\": %llu, \"paths\": %u, \"period_ms\": %llu, "
	       "\"reset_ms\": %llu, \"allowed_difference\": %llu}\n",
	       (unsigned long long)clock_ns(CLOCK_TAI), detection.paths, detection.period_ms,
	       detection.reset_ms, detection.difference);
	fflush(stdout);
	while (!ferror(stdout)) {
		/* Where both are due at once the test comes first: the reset clears the difference
		 * of the period before it. */
		if (reset < test) {
			wait_until(reset);
			reset += detection.reset_ms * 1000000;
			for_each_stream(&maps, &detection, true, false);
		} else {
			wait_until(test);
			test += detection.period_ms * 1000000;
			for_each_stream(&maps, &detection, false, false);
		}
	}
}
