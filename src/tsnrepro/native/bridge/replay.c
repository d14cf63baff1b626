/* SPDX-License-Identifier: MIT
 *
 * bridge-replay: what one port of the bridge does with a list of arrivals, in virtual time.
 *
 *   bridge-replay --settings FILE [--port NAME] (--csv FILE | --pcap FILE) [--out-pcap FILE]
 *                 [--until-ps N] [--move-epoch-ps N]
 *
 * A CSV file has a header and lines `time_ps,queue,bytes`: when a frame's last bit came, the class
 * it belongs to (8: PTP), and its length with FCS; times do not go back. Of a capture, the class is
 * that of VLAN ID and PCP, and time 0 is the whole second before its first frame.
 *
 * Prints one line for each arrival, in the order of arrival:
 * `frame,queue,bytes,arrived_ps,start_ps,done_ps,outcome`. The outcome is sent, dropped (its queue was full) or waiting (no gate or credit
 * let it go). --out-pcap writes what was sent, each frame stamped with its first bit's time.
 *
 * --move-epoch-ps lets the scheduler's time begin anew after so long, as a bridge that runs for
 * months does; nothing else changes.
 */
#define _GNU_SOURCE
#include "frames.h"

#include <getopt.h>
#include <inttypes.h>
#include <pcap/pcap.h>
#include <stdlib.h>

#define PS_PER_S INT64_C(1000000000000)

enum outcome { WAITING, SENT, DROPPED };
static const char *const OUTCOMES[] = {"waiting", "sent", "dropped"};

struct arrival {
	int64_t time, start, done;
	uint32_t bytes, captured;
	uint8_t *content; /* of a capture */
	int queue;
	enum outcome outcome;
};

struct arrivals {
	struct arrival *list;
	size_t count, room;
	int64_t epoch_ns;
};

static void fail(const char *what, const char *where)
{
	fprintf(stderr, "bridge-replay: %s: %s\n", where, what);
	exit(1);
}

static void add(struct arrivals *all, struct arrival arrival)
{
	if (all->count == all->room) {
		all->room = all->room ? 2 * all->room : 1024;
		all->list = realloc(all->list, all->room * sizeof *all->list);
		if (!all->list)
			fail("no memory", "arrivals");
	}
	if (all->count > 0 && arrival.time < all->list[all->count - 1].time)
		fail("times go back", "arrivals");
	all->list[all->count++] = arrival;
}

static void read_csv(const char *path, struct arrivals *all)
{
	FILE *file = fopen(path, "r");
	char line[256], left[2];
	struct arrival arrival = {0};

	if (!file || !fgets(line, sizeof line, file))
		fail("it cannot be read", path);
	while (fgets(line, sizeof line, file)) {
		if (sscanf(line, "%" SCNd64 ",%d,%" SCNu32 "%1s", &arrival.time, &arrival.queue,
				   &arrival.bytes, left) != 3 ||
			arrival.time < 0 || arrival.queue < 0 || arrival.queue >= QUEUES)
			fail("a line is no time_ps,queue,bytes", path);
		add(all, arrival);
	}
	fclose(file);
}

static pcap_t *open_capture(const char *path)
{
	char problem[PCAP_ERRBUF_SIZE];
	pcap_t *capture = pcap_open_offline_with_tstamp_precision(path, PCAP_TSTAMP_PRECISION_NANO,
															  problem);
	if (!capture)
		fail(problem, path);
	if (pcap_datalink(capture) != DLT_EN10MB)
		fail("it is no capture of Ethernet", path);
	return capture;
}

static void read_pcap(const char *path, const struct bridge_settings *settings,
					  struct arrivals *all)
{
	pcap_t *capture = open_capture(path);
	struct pcap_pkthdr *header;
	const uint8_t *content;
	int64_t first_s = -1;
	int status;

	while ((status = pcap_next_ex(capture, &header, &content)) == 1) {
		struct frame_facts facts;
		if (!frame_read(content, header->caplen, &facts))
			fail("a frame ends within its headers", path);
		if (first_s < 0)
			first_s = header->ts.tv_sec;
		struct arrival arrival = {
			.time = (header->ts.tv_sec - first_s) * PS_PER_S + header->ts.tv_usec * INT64_C(1000),
			.queue = frame_queue(settings, &facts),
			.bytes = header->len + FCS_BYTES,
			.captured = header->caplen,
			.content = malloc(header->caplen),
		};
		if (!arrival.content)
			fail("no memory", path);
		memcpy(arrival.content, content, header->caplen);
		add(all, arrival);
	}
	if (status == PCAP_ERROR)
		fail(pcap_geterr(capture), path);
	all->epoch_ns = first_s < 0 ? 0 : first_s * INT64_C(1000000000);
	pcap_close(capture);
}

static void write_frame(pcap_dumper_t *dump, const struct arrivals *all,
						const struct arrival *arrival)
{
	int64_t start_ns = all->epoch_ns + arrival->start / 1000;
	struct pcap_pkthdr header = {
		.ts = {start_ns / 1000000000, start_ns % 1000000000},
		.caplen = arrival->captured,
		.len = arrival->bytes - FCS_BYTES,
	};
	pcap_dump((u_char *)dump, &header, arrival->content);
}

struct options {
	const char *settings, *port, *csv, *pcap, *out;
	int64_t until, epoch_lasts;
};

/* Arrivals of an instant come before what starts then. */
static void run(struct scheduler *port, struct arrivals *all, const struct options *options,
		pcap_dumper_t *dump)
{
	size_t next = 0;
	int64_t now = 0, epoch = 0;

	for (;;) {
		struct departure departure;
		int64_t look_again = NEVER;
		if (now - epoch >= options->epoch_lasts) {
			scheduler_move_epoch(port, now - epoch);
			epoch = now;
		}
		for (; next < all->count && all->list[next].time <= now; next++) {
			struct arrival *arrival = &all->list[next];
			if (!scheduler_put(port, now - epoch, arrival->queue, arrival->bytes, arrival))
				arrival->outcome = DROPPED;
		}
		while (scheduler_take(port, now - epoch, &departure, &look_again)) {
			struct arrival *arrival = departure.frame.handle;
			arrival->outcome = SENT;
			arrival->start = departure.start + epoch;
			arrival->done = departure.done + epoch;
			if (dump)
				write_frame(dump, all, arrival);
		}
		if (look_again != NEVER)
			look_again += epoch;
		if (next < all->count && all->list[next].time < look_again)
			look_again = all->list[next].time;
		if (look_again >= options->until)
			return;
		now = look_again;
	}
}

static void print(const struct arrivals *all)
{
	puts("frame,queue,bytes,arrived_ps,start_ps,done_ps,outcome");
	for (size_t number = 0; number < all->count; number++) {
		const struct arrival *arrival = &all->list[number];
		printf("%zu,%d,%" PRIu32 ",%" PRId64 ",", number, arrival->queue, arrival->bytes,
			   arrival->time);
		if (arrival->outcome == SENT)
			printf("%" PRId64 ",%" PRId64, arrival->start, arrival->done);
		else
			putchar(',');
		printf(",%s\n", OUTCOMES[arrival->outcome]);
	}
}

static struct options parse(int count, char **words)
{
	static const struct option known[] = {
		{"settings", required_argument, NULL, 's'}, {"port", required_argument, NULL, 'p'},
		{"csv", required_argument, NULL, 'c'},      {"pcap", required_argument, NULL, 'i'},
		{"out-pcap", required_argument, NULL, 'o'}, {"until-ps", required_argument, NULL, 'u'},
		{"move-epoch-ps", required_argument, NULL, 'm'},
		{0},
	};
	struct options options = {.port = "", .until = NEVER, .epoch_lasts = NEVER};
	int letter;

	while ((letter = getopt_long(count, words, "", known, NULL)) != -1)
		switch (letter) {
		case 's': options.settings = optarg; break;
		case 'p': options.port = optarg; break;
		case 'c': options.csv = optarg; break;
		case 'i': options.pcap = optarg; break;
		case 'o': options.out = optarg; break;
		case 'u': options.until = strtoll(optarg, NULL, 10); break;
		case 'm': options.epoch_lasts = strtoll(optarg, NULL, 10); break;
		default: exit(2);
		}
	if (optind < count || !options.settings || !options.csv == !options.pcap ||
		(options.out && !options.pcap)) {
		fputs("usage: bridge-replay --settings FILE [--port NAME] (--csv FILE | --pcap FILE "
			  "[--out-pcap FILE]) [--until-ps N] [--move-epoch-ps N]\n", stderr);
		exit(2);
	}
	return options;
}

static struct bridge_settings read_settings(const char *path)
{
	static struct bridge_settings settings;
	char problem[256];
	FILE *file = fopen(path, "r");

	if (!file)
		fail("it cannot be read", path);
	if (!settings_read(file, &settings, problem, sizeof problem))
		fail(problem, path);
	fclose(file);
	return settings;
}

int main(int count, char **words)
{
	struct options options = parse(count, words);
	struct bridge_settings settings = read_settings(options.settings);
	struct arrivals all = {0};
	struct scheduler port;
	pcap_t *written = NULL;
	pcap_dumper_t *dump = NULL;

	if (options.csv)
		read_csv(options.csv, &all);
	else
		read_pcap(options.pcap, &settings, &all);
	if (!scheduler_open(&port, settings_of_port(&settings, options.port), all.epoch_ns))
		fail("no memory", "queues");
	if (options.out) {
		written = pcap_open_dead_with_tstamp_precision(DLT_EN10MB, 65535, PCAP_TSTAMP_PRECISION_NANO);
		dump = pcap_dump_open(written, options.out);
		if (!dump)
			fail(pcap_geterr(written), options.out);
	}
	run(&port, &all, &options, dump);
	if (dump)
		pcap_dump_close(dump);
	if (written)
		pcap_close(written);
	print(&all);
	scheduler_close(&port);
	return 0;
}
