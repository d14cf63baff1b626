/* SPDX-License-Identifier: MIT
 *
 * Changing what runs: settings, resets, and faults, which last until they are set to nothing.
 */
#include "frerctl_commands.h"
#include "frerctl_maps.h"
#include "frerctl_options.h"

static void restart_recovery(const struct maps *maps, __u32 streams,
			     const struct switch_config *old)
{
	if (maps->recovery >= 0)
		begin_recovery(maps->recovery, streams, false, old);
	if (maps->individual >= 0)
		begin_recovery(maps->individual, streams, true, old);
}

/* --- settings ----------------------------------------------------------------- */

static void refuse_individual(const struct maps *maps, const struct switch_config *config)
{
	__u32 stream;

	if (maps->recovery < 0 || maps->individual >= 0)
		return;
	for (stream = 0; stream < config->streams; stream++)
		if (config->stream[stream].individual)
			die("a listener that eliminates has one link for all member paths, "
			    "so it takes --individual off only");
}

static void apply(const struct maps *maps, const struct switch_config *config)
{
	struct switch_config old = read_config(maps->config);

	refuse_individual(maps, config);
	write_config(maps->config, maps->ports, config);
	restart_recovery(maps, FRER_MAX_STREAMS, &old);
	if (maps->generator >= 0)
		begin_generator(maps->generator, false);
}

void command_set(int argc, char **argv)
{
	struct maps maps = find_maps(argv[0]);
	struct switch_config config = read_config(maps.config);

	config.streams = config.one_stream = 1;
	read_one_stream(argc, argv, &config);
	apply(&maps, &config);
}

void command_streams(int argc, char **argv)
{
	struct maps maps = find_maps(argv[0]);
	struct switch_config config = read_config(maps.config);

	read_streams(argc, argv, &config);
	apply(&maps, &config);
}

/* --- resets ------------------------------------------------------------------- */

/* SequenceRecoveryReset of IEEE 802.1CB-2017, 7.4.3.3, by the control plane. */
void command_reset(int argc, char **argv)
{
	struct maps maps = find_switch(argv[0]);
	struct switch_config config = read_config(maps.config);

	no_options(argc, argv);
	restart_recovery(&maps, config.streams, &config);
}

void command_restart(int argc, char **argv)
{
	struct maps maps = find_switch(argv[0]);
	struct switch_config config = read_config(maps.config);

	no_options(argc, argv);
	if (maps.generator >= 0)
		begin_generator(maps.generator, true);
	restart_recovery(&maps, config.streams, &config);
}

/* --- faults ------------------------------------------------------------------- */

static __u32 path_of(const char *device, const struct switch_config *config)
{
	unsigned int ifindex = ifindex_of(device);
	__u32 path;

	for (path = 0; path < config->paths; path++)
		if (config->member_ifindex[path] == ifindex)
			return path;
	die("'%s' is not a member port: a fault is one of a link between switches", device);
}

void command_fault(int argc, char **argv)
{
	struct maps maps = find_switch(argv[0]);
	struct switch_config config = read_config(maps.config);
	__u32 path = path_of(argv[0], &config);
	struct fault fault = {}; /* what is not named ends */

	read_fault(argc, argv, &fault);
	write_value(maps.faults, path, &fault, "the link's fault");
}

void command_generator(int argc, char **argv)
{
	struct maps maps = find_switch(argv[0]);
	struct generator state;
	__u32 stream = 0;
	bool stuck = read_stuck(argc, argv, &stream);

	if (maps.generator < 0)
		die("'%s' is a listener's port: nothing is numbered there", argv[0]);
	if (stream >= read_config(maps.config).streams)
		die("there is no stream %u", stream);
	/* A frame that is numbered between reading and writing gets its number again: that is what
	 * a generator that gets stuck does, and at the end of the fault it is one more repeat. */
	read_value(maps.generator, stream, &state, "the sequence generator");
	state.stuck = stuck;
	write_value(maps.generator, stream, &state, "the sequence generator");
}
