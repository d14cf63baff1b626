/* SPDX-License-Identifier: MIT
 *
 * frerctl: the control plane of the emulated switch, run on the switch itself.
 *
 *   frerctl switch PORTS OPTIONS    load and attach; PORTS is HOST,MEMBER[,MEMBER...], and
 *                                   OPTIONS has --history and --reset-ms
 *   frerctl station DEV             count what a host's card sends and receives
 *   frerctl listener DEV OPTIONS    eliminate on a listener's card, and count there; the switch
 *                                   before it has --leave-tags on
 *   frerctl set PORT OPTIONS        change a running switch; recovery starts afresh
 *   frerctl streams PORT STREAMS    set several streams; STREAMS is --stream NAME OPTIONS
 *                                   [--stream NAME OPTIONS ...]; recovery starts afresh
 *   frerctl reset PORT              recovery starts afresh, sequence generation goes on
 *   frerctl counters PORT           every counter, as JSON
 *   frerctl latent PORT OPTIONS     latent error detection; prints a line for each alarm
 *   frerctl drops OPTIONS           locate drops of the streams until standard input ends;
 *                                   each line read prints the drops so far as a line of JSON
 * and faults, which go on until they are taken back:
 *   frerctl fault PORT [--drop-ppm N] [--duplicate-ppm N]
 *                                   a member link loses what arrives, doubles what departs
 *   frerctl generator PORT [--stream-index N] --stuck on|off
 *                                   the sequence number does not change any more
 *   frerctl restart PORT            forget all sequence numbers, as a switch that restarts does
 *
 * Nothing is pinned: the programs hang on their ports and go with them, and a
 * running switch is found again by the programs on its port.
 */
#include <getopt.h>
#include <stdarg.h>

#include "frerctl.h"

#define MILLION 1000000

/* libbpf speaks up about things that are no failure here (a clsact that is already
 * there), so its last words are kept and shown only when something did fail. */
static char last_words[4096];

static int keep_last_words(enum libbpf_print_level level, const char *format, va_list arguments)
{
	if (level == LIBBPF_WARN)
		vsnprintf(last_words, sizeof(last_words), format, arguments);
	return 0;
}

void die(const char *format, ...)
{
	va_list arguments;

	fputs("frerctl: ", stderr);
	va_start(arguments, format);
	vfprintf(stderr, format, arguments);
	va_end(arguments);
	fputc('\n', stderr);
	if (*last_words)
		fprintf(stderr, "frerctl: libbpf said: %s", last_words);
	exit(1);
}

unsigned int ifindex_of(const char *name)
{
	unsigned int ifindex = if_nametoindex(name);

	if (!ifindex)
		die("no network device '%s' in this namespace", name);
	return ifindex;
}

unsigned long number(const char *text, const char *what, unsigned long low, unsigned long high)
{
	char *end;
	unsigned long value = strtoul(text, &end, 10);

	if (*text == '\0' || *end != '\0' || value < low || value > high)
		die("%s '%s' is not a number from %lu to %lu", what, text, low, high);
	return value;
}

bool on_or_off(const char *text, const char *what)
{
	if (!strcmp(text, "on"))
		return true;
	if (!strcmp(text, "off"))
		return false;
	die("%s takes 'on' or 'off', not '%s'", what, text);
}

__u64 clock_ns(clockid_t clock)
{
	struct timespec now;

	clock_gettime(clock, &now);
	return now.tv_sec * 1000000000ULL + now.tv_nsec;
}

/* --- setting what runs ------------------------------------------------------- */

static void start_afresh(const struct running *found, __u32 streams,
			 const struct switch_config *ran)
{
	if (found->recovery >= 0)
		begin_recovery(found->recovery, streams, false, ran);
	if (found->individual >= 0)
		begin_recovery(found->individual, streams, true, ran);
}

static void refuse_individual(const struct running *found, const struct switch_config *config)
{
	__u32 stream;

	if (found->recovery < 0 || found->individual >= 0)
		return;
	for (stream = 0; stream < config->streams; stream++)
		if (config->stream[stream].individual)
			die("a listener that eliminates has one link for all member paths, "
			    "so it takes --individual off only");
}

static void put_and_start(const struct running *found, const struct switch_config *config)
{
	struct switch_config ran = get_config(found->config);

	refuse_individual(found, config);
	put_config(found->config, found->ports, config);
	start_afresh(found, FRER_MAX_STREAMS, &ran);
	if (found->generator >= 0)
		begin_generator(found->generator, false);
}

static void command_set(const char *device, int argc, char **argv)
{
	struct running found = find_running(device);
	struct switch_config config = get_config(found.config);

	config.streams = config.one_stream = 1;
	read_one_stream(argc, argv, &config);
	put_and_start(&found, &config);
}

static void command_streams(const char *device, int argc, char **argv)
{
	struct running found = find_running(device);
	struct switch_config config = get_config(found.config);

	read_streams(argc, argv, &config);
	put_and_start(&found, &config);
}

/* --- faults --------------------------------------------------------------------- */

static __u64 threshold(const char *text, const char *what)
{
	return (__u64)number(text, what, 0, MILLION) * (1ULL << 32) / MILLION;
}

static __u32 path_of(const char *device, const struct switch_config *config)
{
	unsigned int ifindex = ifindex_of(device);
	__u32 path;

	for (path = 0; path < config->paths; path++)
		if (config->member_ifindex[path] == ifindex)
			return path;
	die("'%s' is no member port: a fault is of a link between switches", device);
}

static void command_fault(const char *device, int argc, char **argv)
{
	static const struct option options[] = {
		{"drop-ppm", required_argument, NULL, 'd'},
		{"duplicate-ppm", required_argument, NULL, 'c'},
		{NULL, 0, NULL, 0},
	};
	struct running found = find_switch(device);
	struct switch_config config = get_config(found.config);
	__u32 path = path_of(device, &config);
	struct fault fault = {}; /* what is not named is taken back */
	int option;

	optind = 1;
	while ((option = getopt_long(argc, argv, "", options, NULL)) != -1) {
		if (option == 'd')
			fault.drop_below = threshold(optarg, "--drop-ppm");
		else if (option == 'c')
			fault.duplicate_below = threshold(optarg, "--duplicate-ppm");
		else
			die("unknown option; fault takes --drop-ppm and --duplicate-ppm");
	}
	if (optind < argc)
		die("'%s' is one word too many", argv[optind]);
	write_value(found.faults, path, &fault, "the link's fault");
}

static void command_generator(const char *device, int argc, char **argv)
{
	static const struct option options[] = {
		{"stream-index", required_argument, NULL, 'i'},
		{"stuck", required_argument, NULL, 's'},
		{NULL, 0, NULL, 0},
	};
	struct running found = find_switch(device);
	struct generator state;
	int option, stuck = -1;
	__u32 stream = 0;

	optind = 1;
	while ((option = getopt_long(argc, argv, "", options, NULL)) != -1) {
		if (option == 'i')
			stream = number(optarg, "--stream-index", 0, FRER_MAX_STREAMS - 1);
		else if (option == 's')
			stuck = on_or_off(optarg, "--stuck");
		else
			die("unknown option; generator takes --stream-index and --stuck");
	}
	if (optind < argc)
		die("'%s' is one word too many", argv[optind]);
	if (stuck < 0)
		die("say --stuck on or --stuck off");
	if (found.generator < 0)
		die("'%s' is a listener's: nothing is numbered there", device);
	if (stream >= get_config(found.config).streams)
		die("there is no stream %u", stream);
	/* A frame that is numbered between reading and writing has its number again: that is what
	 * a generator that gets stuck does, and at the end of the fault it is one more repeat. */
	read_value(found.generator, stream, &state, "the sequence generator");
	state.stuck = stuck;
	write_value(found.generator, stream, &state, "the sequence generator");
}

/* SequenceRecoveryReset of IEEE 802.1CB-2017, 7.4.3.3, asked for by the control plane. */
static void command_reset(const char *device)
{
	struct running found = find_switch(device);
	struct switch_config config = get_config(found.config);

	start_afresh(&found, config.streams, &config);
}

static void command_restart(const char *device)
{
	struct running found = find_switch(device);
	struct switch_config config = get_config(found.config);

	if (found.generator >= 0)
		begin_generator(found.generator, true);
	start_afresh(&found, config.streams, &config);
}

int main(int argc, char **argv)
{
	const char *command = argc > 1 ? argv[1] : "";

	libbpf_set_print(keep_last_words);
	if (!strcmp(command, "switch") && argc > 2)
		command_switch(argv[2], argc - 2, argv + 2);
	else if (!strcmp(command, "station") && argc > 2)
		command_station(argv[2], argc - 2, argv + 2);
	else if (!strcmp(command, "listener") && argc > 2)
		command_listener(argv[2], argc - 2, argv + 2);
	else if (!strcmp(command, "set") && argc > 2)
		command_set(argv[2], argc - 2, argv + 2);
	else if (!strcmp(command, "streams") && argc > 2)
		command_streams(argv[2], argc - 2, argv + 2);
	else if (!strcmp(command, "reset") && argc == 3)
		command_reset(argv[2]);
	else if (!strcmp(command, "counters") && argc == 3)
		command_counters(argv[2]);
	else if (!strcmp(command, "fault") && argc > 2)
		command_fault(argv[2], argc - 2, argv + 2);
	else if (!strcmp(command, "generator") && argc > 2)
		command_generator(argv[2], argc - 2, argv + 2);
	else if (!strcmp(command, "restart") && argc == 3)
		command_restart(argv[2]);
	else if (!strcmp(command, "latent") && argc > 2)
		command_latent(argv[2], argc - 2, argv + 2);
	else if (!strcmp(command, "drops"))
		command_drops(argc - 1, argv + 1);
	else
		die("usage: frerctl switch PORTS | station DEV | listener DEV | set PORT | "
		    "streams PORT | reset PORT | counters PORT | fault PORT | generator PORT | "
		    "restart PORT | latent PORT | drops");
	return 0;
}
