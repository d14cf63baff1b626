/* SPDX-License-Identifier: MIT
 *
 * The options of a stream.
 */
#include <getopt.h>

#include "frerctl.h"

static const struct option options[] = {
	{"frer", required_argument, NULL, 'f'},
	{"algorithm", required_argument, NULL, 'a'},
	{"history", required_argument, NULL, 'l'},
	{"reset-ms", required_argument, NULL, 'r'},
	{"individual", required_argument, NULL, 'i'},
	{"take-no-sequence", required_argument, NULL, 't'},
	{"leave-tags", required_argument, NULL, 'g'},
	{"stream", required_argument, NULL, 's'},
	{"min-payload", required_argument, NULL, 'm'},
	{NULL, 0, NULL, 0},
};

static __u32 algorithm(const char *text)
{
	if (!strcmp(text, "vector"))
		return FRER_VECTOR;
	if (!strcmp(text, "match"))
		return FRER_MATCH;
	die("--algorithm takes 'vector' or 'match', not '%s'", text);
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

void set_stream(struct stream_filter *stream, const char *text)
{
	char first[8] = "", *last;

	if (!strncmp(text, "udp:", 4))
		stream->ip_protocol = 17;
	else if (!strncmp(text, "tcp:", 4))
		stream->ip_protocol = 6;
	else
		die("--stream takes udp:PORT or tcp:PORT, not '%s'", text);
	snprintf(first, sizeof(first), "%s", text + 4);
	last = strchr(first, '-');
	if (last)
		*last = '\0';
	stream->first_port = number(first, "port", 1, 65535);
	stream->last_port = stream->first_port;
	if (last)
		stream->last_port =
			number(strchr(text, '-') + 1, "last port", stream->first_port, 65535);
}

static void set_option(struct stream_config *stream, int option)
{
	switch (option) {
	case 'f':
		stream->frer = on_or_off(optarg, "--frer");
		break;
	case 'a':
		stream->recovery.algorithm = algorithm(optarg);
		break;
	case 'l':
		stream->recovery.history_length = number(optarg, "--history", 2, FRER_HISTORY_BITS);
		break;
	case 'r':
		stream->recovery.reset_ns = number(optarg, "--reset-ms", 1, 3600000) * 1000000ULL;
		break;
	case 'i':
		set_individual(stream, optarg);
		break;
	case 't':
		stream->take_no_sequence = on_or_off(optarg, "--take-no-sequence");
		break;
	case 'g':
		stream->leave_tags = on_or_off(optarg, "--leave-tags");
		break;
	case 's':
		set_stream(&stream->filter, optarg);
		break;
	case 'm':
		stream->filter.min_payload = number(optarg, "--min-payload", 0, 65507);
		break;
	default:
		die("unknown option; see the head of frerctl.c for the usage");
	}
	stream->individual_recovery.history_length = stream->recovery.history_length;
	stream->individual_recovery.reset_ns = stream->recovery.reset_ns;
}

void read_one_stream(int argc, char **argv, struct switch_config *config)
{
	int option;

	optind = 1;
	while ((option = getopt_long(argc, argv, "", options, NULL)) != -1)
		set_option(&config->stream[0], option);
	if (optind < argc)
		die("'%s' is one word too many", argv[optind]);
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

/* What stands before the first --stream is every stream's default. */
void read_streams(int argc, char **argv, struct switch_config *config)
{
	struct stream_config defaults = config->stream[0], *stream = &defaults;
	int option;

	memset(&defaults.filter, 0, sizeof(defaults.filter));
	config->streams = config->one_stream = 0;
	optind = 1;
	while ((option = getopt_long(argc, argv, "", options, NULL)) != -1) {
		if (option == 's') {
			if (config->streams == FRER_MAX_STREAMS)
				die("more than %d streams", FRER_MAX_STREAMS);
			stream = &config->stream[config->streams++];
			*stream = defaults;
		}
		set_option(stream, option);
	}
	if (optind < argc)
		die("'%s' is one word too many", argv[optind]);
	if (!config->streams)
		die("name at least one --stream");
	refuse_overlap(config);
}
