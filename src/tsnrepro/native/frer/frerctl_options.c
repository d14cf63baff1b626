/* SPDX-License-Identifier: MIT
 *
 * See frerctl_options.h.
 */
#include "frerctl_options.h"

#include <getopt.h>
#include <stdio.h>
#include <string.h>

#define MILLION 1000000

enum { FRER, ALGORITHM, HISTORY, RESET, INDIVIDUAL, TAKE_NO_SEQUENCE, LEAVE_TAGS, STREAM, PAYLOAD };

static const struct known_option stream_options[] = {
	[FRER] = {"frer", "on|off",
		  "number, replicate and eliminate; off (the default): forward untagged over the "
		  "first member port"},
	[ALGORITHM] = {"algorithm", "vector|match", "recovery algorithm (default: vector)"},
	[HISTORY] = {"history", "N",
		     "length of the sequence history, 2 to 2048; switch and listener need it"},
	[RESET] = {"reset-ms", "MS",
		   "time without an accepted frame until any is accepted, 1 to 3600000 ms; switch "
		   "and listener need it"},
	[INDIVIDUAL] = {"individual", "off|vector|match",
			"a recovery function at each member port ahead of the compound one "
			"(default: off)"},
	[TAKE_NO_SEQUENCE] = {"take-no-sequence", "on|off",
			      "accept frames of the stream without R-TAG (default: off)"},
	[LEAVE_TAGS] = {"leave-tags", "on|off",
			"hand tagged frames on to the host, which eliminates (default: off)"},
	[STREAM] = {"stream", "udp|tcp:PORT[-PORT]",
		    "destination ports of the stream: for 'streams' they identify it, otherwise they "
		    "select the frames counted as the one stream"},
	[PAYLOAD] = {"min-payload", "BYTES",
		     "count UDP datagrams as the stream's from this payload on, 0 to 65507 bytes "
		     "(default: 0)"},
	{NULL, NULL, NULL},
};

enum { PERIOD, LATENT_RESET, DIFFERENCE, PATHS };

static const struct known_option latent_options[] = {
	[PERIOD] = {"period-ms", "MS",
		    "time between tests, 1 to 3600000 ms (default: 2000)"},
	[LATENT_RESET] = {"reset-ms", "MS",
			  "time between resets of the base, 1 to 3600000 ms (default: 30000)"},
	[DIFFERENCE] = {"difference", "N",
			"alarm above this difference, in frames (default: 100)"},
	[PATHS] = {"paths", "N",
		   "member paths, 1 to 8 (default: member ports of a switch; a listener needs it)"},
	{NULL, NULL, NULL},
};

enum { DROP, DUPLICATE };

static const struct known_option fault_options[] = {
	[DROP] = {"drop-ppm", "N", "lose N of a million arriving frames (default: 0)"},
	[DUPLICATE] = {"duplicate-ppm", "N", "send N of a million frames twice (default: 0)"},
	{NULL, NULL, NULL},
};

enum { STREAM_INDEX, STUCK };

static const struct known_option generator_options[] = {
	[STREAM_INDEX] = {"stream-index", "N", "stream, counted from 0 (default: 0)"},
	[STUCK] = {"stuck", "on|off", "repeat the sequence number; needed"},
	{NULL, NULL, NULL},
};

static const struct help help = {
	.purpose = "Control frame replication and elimination (IEEE Std 802.1CB) in eBPF on the "
		   "ports of\nthis host. See frerctl(8).",
	.usage = "  frerctl switch HOST,MEMBER[,MEMBER]... [STREAM OPTION]...\n"
		 "  frerctl listener DEVICE [STREAM OPTION]...\n"
		 "  frerctl station DEVICE [STREAM OPTION]...\n"
		 "  frerctl set PORT [STREAM OPTION]...\n"
		 "  frerctl streams PORT [STREAM OPTION]... {--stream NAME [STREAM OPTION]...}...\n"
		 "  frerctl reset PORT\n"
		 "  frerctl counters PORT\n"
		 "  frerctl latent PORT [OPTION]...\n"
		 "  frerctl drops [STREAM OPTION]...\n"
		 "  frerctl fault MEMBER [OPTION]...\n"
		 "  frerctl generator PORT --stuck on|off [--stream-index N]\n"
		 "  frerctl restart PORT",
	.groups = {
		{"Stream options", stream_options},
		{"Options of latent", latent_options},
		{"Options of fault", fault_options},
		{"Options of generator", generator_options},
	},
	.example = "  frerctl switch host,eth1,eth2 --frer on --history 512 --reset-ms 2000\n"
		   "  frerctl counters host\n"
		   "  tc qdisc del dev eth1 clsact      # stop; also on eth2 and host",
};

static bool on_or_off(const char *text, const char *what)
{
	if (!strcmp(text, "on"))
		return true;
	if (strcmp(text, "off"))
		die("%s takes 'on' or 'off', not '%s'", what, text);
	return false;
}

static __u32 algorithm(const char *text)
{
	if (!strcmp(text, "vector"))
		return FRER_VECTOR;
	if (strcmp(text, "match"))
		die("--algorithm takes 'vector' or 'match', not '%s'", text);
	return FRER_MATCH;
}

/* The individual functions share history and reset time with the compound one. */
static void set_individual(struct stream_config *stream, const char *text)
{
	stream->individual = strcmp(text, "off") != 0;
	if (!strcmp(text, "vector"))
		stream->individual_recovery.algorithm = FRER_VECTOR;
	else if (!strcmp(text, "match"))
		stream->individual_recovery.algorithm = FRER_MATCH;
	else if (stream->individual)
		die("--individual takes 'off', 'vector' or 'match', not '%s'", text);
}

void read_filter(struct stream_filter *filter, const char *text)
{
	char first[8] = "", *dash;

	if (!strncmp(text, "udp:", 4))
		filter->ip_protocol = 17;
	else if (!strncmp(text, "tcp:", 4))
		filter->ip_protocol = 6;
	else
		die("--stream takes udp:PORT or tcp:PORT, not '%s'", text);
	snprintf(first, sizeof(first), "%s", text + 4);
	dash = strchr(first, '-');
	if (dash)
		*dash = '\0';
	filter->first_port = number(first, "port", 1, 65535);
	filter->last_port = filter->first_port;
	if (dash)
		filter->last_port =
			number(strchr(text, '-') + 1, "last port", filter->first_port, 65535);
}

static void set_stream_option(struct stream_config *stream, int option)
{
	switch (option) {
	case FRER: stream->frer = on_or_off(optarg, "--frer"); break;
	case ALGORITHM: stream->recovery.algorithm = algorithm(optarg); break;
	case HISTORY:
		stream->recovery.history_length = number(optarg, "--history", 2, FRER_HISTORY_BITS);
		break;
	case RESET:
		stream->recovery.reset_ns = number(optarg, "--reset-ms", 1, 3600000) * 1000000;
		break;
	case INDIVIDUAL: set_individual(stream, optarg); break;
	case TAKE_NO_SEQUENCE:
		stream->take_no_sequence = on_or_off(optarg, "--take-no-sequence");
		break;
	case LEAVE_TAGS: stream->leave_tags = on_or_off(optarg, "--leave-tags"); break;
	case STREAM: read_filter(&stream->filter, optarg); break;
	case PAYLOAD: stream->filter.min_payload = number(optarg, "--min-payload", 0, 65507); break;
	}
	stream->individual_recovery.history_length = stream->recovery.history_length;
	stream->individual_recovery.reset_ns = stream->recovery.reset_ns;
}

void no_options(int argc, char **argv)
{
	static const struct known_option none[] = {{NULL, NULL, NULL}};

	next_option(argc, argv, none, &help, 0);
}

void read_one_stream(int argc, char **argv, struct switch_config *config)
{
	int option;

	while ((option = next_option(argc, argv, stream_options, &help, 0)) != -1)
		set_stream_option(&config->stream[0], option);
}

static void refuse_overlap(const struct switch_config *config)
{
	const struct stream_filter *one, *other;
	__u32 i, j;

	for (i = 0; i < config->streams; i++) {
		for (j = 0; j < i; j++) {
			one = &config->stream[i].filter;
			other = &config->stream[j].filter;
			if (one->ip_protocol == other->ip_protocol &&
			    one->first_port <= other->last_port &&
			    other->first_port <= one->last_port)
				die("streams %u and %u have a port in common", j, i);
		}
	}
}

/* Options before the first --stream are defaults of every stream. */
void read_streams(int argc, char **argv, struct switch_config *config)
{
	struct stream_config defaults = config->stream[0], *stream = &defaults;
	int option;

	memset(&defaults.filter, 0, sizeof(defaults.filter));
	config->streams = config->one_stream = 0;
	while ((option = next_option(argc, argv, stream_options, &help, 0)) != -1) {
		if (option == STREAM) {
			if (config->streams == FRER_MAX_STREAMS)
				die("more than %d streams", FRER_MAX_STREAMS);
			stream = &config->stream[config->streams++];
			*stream = defaults;
		}
		set_stream_option(stream, option);
	}
	if (!config->streams)
		die("name at least one --stream");
	refuse_overlap(config);
}

static __u64 threshold(const char *text, const char *what)
{
	return number(text, what, 0, MILLION) * (1ULL << 32) / MILLION;
}

void read_fault(int argc, char **argv, struct fault *fault)
{
	int option;

	while ((option = next_option(argc, argv, fault_options, &help, 0)) != -1) {
		if (option == DROP)
			fault->drop_below = threshold(optarg, "--drop-ppm");
		else
			fault->duplicate_below = threshold(optarg, "--duplicate-ppm");
	}
}

bool read_stuck(int argc, char **argv, __u32 *stream)
{
	int option, stuck = -1;

	while ((option = next_option(argc, argv, generator_options, &help, 0)) != -1) {
		if (option == STREAM_INDEX)
			*stream = number(optarg, "--stream-index", 0, FRER_MAX_STREAMS - 1);
		else
			stuck = on_or_off(optarg, "--stuck");
	}
	if (stuck < 0)
		die("generator needs --stuck on or --stuck off");
	return stuck;
}

void read_detection(int argc, char **argv, struct detection *detection)
{
	int option;

	while ((option = next_option(argc, argv, latent_options, &help, 0)) != -1) {
		switch (option) {
		case PERIOD: detection->period_ms = number(optarg, "--period-ms", 1, 3600000); break;
		case LATENT_RESET:
			detection->reset_ms = number(optarg, "--reset-ms", 1, 3600000);
			break;
		case DIFFERENCE:
			detection->difference = number(optarg, "--difference", 0, 1000000000);
			break;
		case PATHS: detection->paths = number(optarg, "--paths", 1, FRER_MAX_PATHS); break;
		}
	}
}
