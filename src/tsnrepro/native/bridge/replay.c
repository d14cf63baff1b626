/* SPDX-License-Identifier: MIT
 *
 * bridge-replay: what one port of the bridge does with a list of arrivals, in virtual time; see
 * bridge-replay(1).
 */
#include "../program.h"
#include "frames.h"

#include <getopt.h>
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

static void add(struct arrivals *all, struct arrival arrival)
{
	if (all->count == all->room) {
		all->room = all->room ? 2 * all->room : 1024;
		all->list = realloc(all->list, all->room * sizeof *all->list);
		if (!all->list)
			die("arrivals: no memory");
	}
	if (all->count > 0 && arrival.time < all->list[all->count - 1].time)
		die("arrivals: times decrease");
	all->list[all->count++] = arrival;
}

static void read_csv(const char *path, struct arrivals *all)
{
	FILE *file = fopen(path, "r");
	char line[256], left[2];
	struct arrival arrival = {0};

	if (!file || !fgets(line, sizeof line, file))
		die("cannot read %s", path);
	while (fgets(line, sizeof line, file)) {
		if (sscanf(line, "%" SCNd64 ",%d,%" SCNu32 "%1s", &arrival.time, &arrival.queue,
				   &arrival.bytes, left) != 3 ||
			arrival.time < 0 || arrival.queue < 0 || arrival.queue >= QUEUES)
			die("%s: a line is not time_ps,queue,bytes", path);
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
		die("%s: %s", path, problem);
	if (pcap_datalink(capture) != DLT_EN10MB)
		die("%s: not a capture of Ethernet frames", path);
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
			die("%s: a frame ends within its headers", path);
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
			die("%s: no memory", path);
		memcpy(arrival.content, content, header->caplen);
		add(all, arrival);
	}
	if (status == PCAP_ERROR)
		die("%s: %s", path, pcap_geterr(capture));
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

enum { SETTINGS, PORT, CSV, PCAP, OUT_PCAP, UNTIL, MOVE_EPOCH };

static const struct known_option known[] = {
	[SETTINGS] = {"settings", "FILE", "settings of the bridge, see tsn-bridge(8)"},
	[PORT] = {"port", "NAME", "port of the settings (default: those of every port)"},
	[CSV] = {"csv", "FILE",
		 "arrivals: a header, then lines time_ps,queue,bytes, in order of time; queue 8 is "
		 "PTP's, bytes include the FCS"},
	[PCAP] = {"pcap", "FILE",
		  "arrivals: a capture of Ethernet frames; time 0 is the whole second before the first"},
	[OUT_PCAP] = {"out-pcap", "FILE",
		      "with --pcap, write the frames that were sent, stamped with their first bit's time"},
	[UNTIL] = {"until-ps", "PS", "end at this time, in ps (default: when nothing can happen)"},
	[MOVE_EPOCH] = {"move-epoch-ps", "PS",
			"move the scheduler's time 0 after this time, in ps, as a bridge that runs for "
			"months does; the result is the same (default: never)"},
	{NULL, NULL, NULL},
};

static const struct help help = {
	.purpose = "Compute when one port of the bridge sends each of a list of frames. Prints a line\n"
		   "of CSV for each arrival: frame,queue,bytes,arrived_ps,start_ps,done_ps,outcome, the\n"
		   "outcome being sent, dropped (queue full) or waiting (no gate or credit let it go).\n"
		   "See bridge-replay(1).",
	.usage = "  bridge-replay --settings FILE {--csv FILE | --pcap FILE} [OPTION]...",
	.groups = {{"Options", known}},
	.example = "  printf 'rate_mbps 100\\nshape 5 30\\n' >settings\n"
		   "  printf 'time_ps,queue,bytes\\n0,5,1480\\n0,5,1480\\n' >arrivals\n"
		   "  bridge-replay --settings settings --csv arrivals",
};

static struct options parse(int argc, char **argv)
{
	struct options options = {.port = "", .until = NEVER, .epoch_lasts = NEVER};
	int option;

	while ((option = next_option(argc, argv, known, &help, 0)) != -1)
		switch (option) {
		case SETTINGS: options.settings = optarg; break;
		case PORT: options.port = optarg; break;
		case CSV: options.csv = optarg; break;
		case PCAP: options.pcap = optarg; break;
		case OUT_PCAP: options.out = optarg; break;
		case UNTIL: options.until = (int64_t)number(optarg, "--until-ps", 0, INT64_MAX); break;
		case MOVE_EPOCH:
			options.epoch_lasts = (int64_t)number(optarg, "--move-epoch-ps", 1, INT64_MAX);
			break;
		}
	if (!options.settings || !options.csv == !options.pcap || (options.out && !options.pcap))
		die("--settings and one of --csv and --pcap are needed, --out-pcap with --pcap only; "
		    "see bridge-replay --help");
	return options;
}

int main(int argc, char **argv)
{
	struct options options = parse(argc, argv);
	static struct bridge_settings settings;
	struct arrivals all = {0};
	struct scheduler port;
	pcap_t *written = NULL;
	pcap_dumper_t *dump = NULL;

	settings_load(options.settings, &settings);
	if (options.csv)
		read_csv(options.csv, &all);
	else
		read_pcap(options.pcap, &settings, &all);
	if (!scheduler_open(&port, settings_of_port(&settings, options.port), all.epoch_ns))
		die("queues: no memory");
	if (options.out) {
		written = pcap_open_dead_with_tstamp_precision(DLT_EN10MB, 65535, PCAP_TSTAMP_PRECISION_NANO);
		dump = pcap_dump_open(written, options.out);
		if (!dump)
			die("%s: %s", options.out, pcap_geterr(written));
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
