/* SPDX-License-Identifier: MIT
 *
 * Every counter of a switch or a host, as JSON.
 *
 * The top level is the first stream, with the frames and bytes of all traffic at each station. Where
 * several streams are set, "streams" has the same for each of them, with its own frames only, and
 * "best_effort" for the rest.
 */
#include "frerctl_commands.h"
#include "frerctl_maps.h"
#include "frerctl_options.h"

#define MAX_CPUS 1024
#define ALL_TRAFFIC STATION_SETS /* the sum over the sets of stations */

static const char *counter_names[FRER_COUNTERS] = {
	"out_of_order", "rogue", "passed", "discarded", "lost", "tagless", "resets",
};

/* --- stations ---------------------------------------------------------------------- */

static struct station read_station(int fd, __u32 index)
{
	static struct station per_cpu[MAX_CPUS];
	struct station sum = {};
	int cpus = libbpf_num_possible_cpus(), cpu;

	if (cpus < 1 || cpus > MAX_CPUS)
		die("this machine's number of processors (%d) is beyond %d", cpus, MAX_CPUS);
	read_value(fd, index, per_cpu, "the station counters");
	for (cpu = 0; cpu < cpus; cpu++) {
		sum.frames += per_cpu[cpu].frames;
		sum.bytes += per_cpu[cpu].bytes;
		sum.stream_frames += per_cpu[cpu].stream_frames;
		sum.stream_fragments += per_cpu[cpu].stream_fragments;
	}
	return sum;
}

static struct station sum_station(int fd, __u32 set, __u32 index)
{
	struct station sum, other;
	__u32 each;

	if (set != ALL_TRAFFIC)
		return read_station(fd, set * STATIONS + index);
	sum = read_station(fd, index);
	for (each = 1; each < STATION_SETS; each++) {
		other = read_station(fd, each * STATIONS + index);
		sum.frames += other.frames;
		sum.bytes += other.bytes;
	}
	return sum;
}

static void print_station(int fd, __u32 set, const char *name, __u32 index)
{
	struct station sum = sum_station(fd, set, index);

	printf("\"%s\": {\"frames\": %llu, \"bytes\": %llu, \"stream_frames\": %llu, "
	       "\"stream_fragments\": %llu}",
	       name, sum.frames, sum.bytes, sum.stream_frames, sum.stream_fragments);
}

static void print_port(int fd, __u32 set, const char *name, __u32 port)
{
	printf("\"%s\": {", name);
	print_station(fd, set, "in", STATION_IN(port));
	fputs(", ", stdout);
	print_station(fd, set, "out", STATION_OUT(port));
	putchar('}');
}

static void print_fault(int fd, __u32 set, const char *name, __u32 port)
{
	printf("\"%s\": {", name);
	print_station(fd, set, "dropped", STATION_FAULT_DROPPED(port));
	fputs(", ", stdout);
	print_station(fd, set, "copied", STATION_FAULT_COPIED(port));
	putchar('}');
}

static const char *name_of(__u32 ifindex)
{
	static char name[IF_NAMESIZE];

	return if_indextoname(ifindex, name) ? name : "?";
}

static void print_refused(int fd, __u32 set)
{
	print_station(fd, set, "eliminated", STATION_ELIMINATED);
	fputs(", ", stdout);
	print_station(fd, set, "rogue", STATION_ROGUE);
	fputs(", ", stdout);
	print_station(fd, set, "tagless", STATION_TAGLESS);
}

static void print_stations(int fd, __u32 set, const struct switch_config *config)
{
	__u32 path;

	fputs("\"ports\": {", stdout);
	print_port(fd, set, name_of(config->host_ifindex), 0);
	for (path = 0; path < config->paths; path++) {
		fputs(", ", stdout);
		print_port(fd, set, name_of(config->member_ifindex[path]), 1 + path);
	}
	fputs("}, \"faults\": {", stdout);
	for (path = 0; path < config->paths; path++) {
		fputs(path ? ", " : "", stdout);
		print_fault(fd, set, name_of(config->member_ifindex[path]), 1 + path);
	}
	fputs("}, ", stdout);
	print_refused(fd, set);
}

/* --- a stream's functions -------------------------------------------------------------- */

static void print_recovery(int fd, __u32 key, const struct recovery_config *config)
{
	struct recovery_value state;
	bool expired;
	int index;

	read_value(fd, key, &state, "the recovery state");
	expired = timer_expired(&state, config);
	state.counters[FRER_RESETS] += expired;
	printf("{\"algorithm\": \"%s\", \"history_length\": %u, \"reset_ms\": %llu, "
	       "\"take_any\": %s, \"recov_seq_num\": %u",
	       config->algorithm == FRER_MATCH ? "match" : "vector", config->history_length,
	       config->reset_ns / 1000000, state.take_any || expired ? "true" : "false",
	       state.recov_seq_num);
	for (index = 0; index < FRER_COUNTERS; index++)
		printf(", \"%s\": %llu", counter_names[index], state.counters[index]);
	putchar('}');
}

static void print_individual(int fd, __u32 stream, const struct switch_config *config)
{
	__u32 path;

	fputs(", \"individual\": {", stdout);
	for (path = 0; path < config->paths; path++) {
		printf("%s\"%s\": ", path ? ", " : "", name_of(config->member_ifindex[path]));
		print_recovery(fd, stream * FRER_MAX_PATHS + path,
			       &config->stream[stream].individual_recovery);
	}
	putchar('}');
}

static void print_generator(int fd, __u32 stream)
{
	struct generator state;

	read_value(fd, stream, &state, "the sequence generator");
	printf("\"generator\": {\"numbered\": %llu, \"next\": %llu, \"gso_refused\": %llu, "
	       "\"stuck\": %s}, ",
	       state.numbered, state.next % FRER_SEQUENCE_SPACE, state.gso_refused,
	       state.stuck ? "true" : "false");
}

static void print_latent(int fd, __u32 stream)
{
	struct latent state;

	read_value(fd, stream, &state, "the state of latent error detection");
	printf(", \"latent\": {\"tests\": %llu, \"alarms\": %llu, \"resets\": %llu, "
	       "\"base\": %lld, \"difference\": %llu, \"tested_ns\": %llu, "
	       "\"latent_error\": %s}, ",
	       state.tests, state.alarms, state.resets, state.base, state.difference,
	       state.tested_ns, state.error ? "true" : "false");
}

static void print_stream(const struct maps *maps, __u32 stream, __u32 set,
			 const struct switch_config *config)
{
	const struct stream_config *settings = &config->stream[stream];

	printf("\"frer\": %s, \"paths\": %u, ", settings->frer ? "true" : "false", config->paths);
	print_generator(maps->generator, stream);
	fputs("\"recovery\": ", stdout);
	print_recovery(maps->recovery, stream, &settings->recovery);
	if (settings->individual)
		print_individual(maps->individual, stream, config);
	print_latent(maps->latent, stream);
	print_stations(maps->stations, set, config);
}

static void print_filter(const struct stream_filter *filter)
{
	printf("\"filter\": {\"protocol\": \"%s\", \"port\": %u, \"last_port\": %u, "
	       "\"min_payload_bytes\": %u}, ",
	       filter->ip_protocol == 6 ? "tcp" : "udp", filter->first_port, filter->last_port,
	       filter->min_payload);
}

/* --- the documents ----------------------------------------------------------------------- */

/* A host's device and, where it eliminates, its recovery of one stream. */
static void print_device(const struct maps *maps, const char *device, __u32 stream, __u32 set,
		       const struct switch_config *config)
{
	const struct stream_config *settings = &config->stream[stream];

	print_port(maps->stations, set, device, 0);
	if (maps->recovery < 0)
		return;
	printf(", \"frer\": %s, \"recovery\": ", settings->frer ? "true" : "false");
	print_recovery(maps->recovery, stream, &settings->recovery);
	print_latent(maps->latent, stream);
	print_refused(maps->stations, set);
}

static void print_host(const struct maps *maps, const char *device,
		       const struct switch_config *config)
{
	__u32 stream;

	print_device(maps, device, 0, ALL_TRAFFIC, config);
	if (config->one_stream)
		return;
	fputs(", \"streams\": [", stdout);
	for (stream = 0; stream < config->streams; stream++) {
		fputs(stream ? ", {" : "{", stdout);
		print_filter(&config->stream[stream].filter);
		print_device(maps, device, stream, stream, config);
		putchar('}');
	}
	fputs("], \"best_effort\": {", stdout);
	print_port(maps->stations, FRER_BEST_EFFORT, device, 0);
	putchar('}');
}

static void print_switch(const struct maps *maps, const struct switch_config *config)
{
	__u32 stream;

	print_stream(maps, 0, ALL_TRAFFIC, config);
	fputs(", ", stdout);
	print_station(maps->stations, ALL_TRAFFIC, "unidentified", STATION_UNIDENTIFIED);
	if (config->one_stream)
		return;
	fputs(", \"streams\": [", stdout);
	for (stream = 0; stream < config->streams; stream++) {
		fputs(stream ? ", {" : "{", stdout);
		print_filter(&config->stream[stream].filter);
		print_stream(maps, stream, stream, config);
		putchar('}');
	}
	fputs("], \"best_effort\": {", stdout);
	print_stations(maps->stations, FRER_BEST_EFFORT, config);
	putchar('}');
}

void command_counters(int argc, char **argv)
{
	struct maps maps = find_maps(argv[0]);
	struct switch_config config = read_config(maps.config);

	no_options(argc, argv);
	putchar('{');
	if (config.paths)
		print_switch(&maps, &config);
	else
		print_host(&maps, argv[0], &config);
	puts("}");
}
