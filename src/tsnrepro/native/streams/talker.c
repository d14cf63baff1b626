/* SPDX-License-Identifier: MIT
 *
 * talker: send numbered datagrams at exact times, each with its number and send time inside; see
 * talker(1).
 */
#include <getopt.h>
#include <math.h>
#include <net/if.h>
#include <netinet/in.h>
#include <arpa/inet.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <linux/errqueue.h>

#include "stream.h"

#define MAX_BURST 1024
#define MAX_BURSTS 256 /* numbers of --burst */
#define SATURATING_BURST 32
#define MAX_CHUNKS 65536 /* of 65536 records: every 32-bit number */
#define LEAD_NS 20000000ULL
#define LONGEST_SLEEP_NS 50000000ULL
#define DEFAULT_SPIN_NS 60000
#define DEFAULT_LATE_NS 10000
#define LAST_STAMPS_MS 200
#define ERROR_BUFFER_BYTES (8 << 20)

struct options {
	struct sockaddr_in destination, own;
	const char *device, *log;
	uint64_t payload, interval_ns, count, seconds_ns;
	uint64_t bursts[MAX_BURSTS];
	unsigned int burst_count;
	uint64_t start_ns, cycle_ns, phase_ns, spin_ns, late_ns, txtime_ahead_ns;
	uint64_t then_after, then_interval_ns;
	uint64_t stream, random, send_buffer;
	int priority;
	enum stamps stamps;
	const struct named_clock *clock;
	bool saturate, poisson, txtime, dont_fragment, has_own, has_priority, has_ahead;
};

struct counts {
	uint64_t attempts, sent, last_call_sent, late, worst_late_ns, unsent;
	uint64_t first_ns, last_ns, refused_reports;
	uint64_t stamped, txtime_missed, txtime_invalid;
};

struct message {
	uint8_t head[HEAD_BYTES];
	struct iovec parts[2];
	_Alignas(struct cmsghdr) uint8_t control[CMSG_SPACE(sizeof(uint64_t))];
};

static struct options options = {
	.destination = { .sin_family = AF_INET },
	.own = { .sin_family = AF_INET },
	.clock = &clocks[0],
	.spin_ns = DEFAULT_SPIN_NS,
	.late_ns = DEFAULT_LATE_NS,
};
static struct counts counts;
static struct errors send_errors;
static struct message messages[MAX_BURST];
static struct mmsghdr calls[MAX_BURST];
static struct record *chunks[MAX_CHUNKS];
static unsigned int next_burst;
static int fd;

/* --- the log ----------------------------------------------------------------------------- */

static void log_sent(uint64_t number, uint64_t wanted, uint64_t sent)
{
	struct record **chunk = &chunks[number / CHUNK_RECORDS];

	if (!*chunk)
		*chunk = allocate(CHUNK_RECORDS * sizeof(struct record));
	(*chunk)[number % CHUNK_RECORDS] = (struct record){
		.stream = (uint32_t)options.stream,
		.sequence = (uint32_t)number,
		.times_ns = { wanted, sent, 0 },
	};
}

/* A frame that stays in one kernel is stamped at every device that it leaves: at a VLAN's and the card
 * below it, and between namespaces at the ports of a bridge. The first stamp is the talker's own. */
static void log_stamp(uint32_t number, uint64_t stamp)
{
	if (number >= counts.sent)
		return;
	struct record *record = &chunks[number / CHUNK_RECORDS][number % CHUNK_RECORDS];
	if (record->times_ns[2])
		return;
	record->times_ns[2] = stamp;
	counts.stamped++;
}

static void write_log(void)
{
	FILE *file = fopen(options.log, "wb");
	bool whole = file != NULL;

	for (uint64_t number = 0; whole && number < counts.sent; number++) {
		struct record r = chunks[number / CHUNK_RECORDS][number % CHUNK_RECORDS];
		r.stream = htole32(r.stream);
		r.sequence = htole32(r.sequence);
		for (int i = 0; i < 3; i++)
			r.times_ns[i] = htole64(r.times_ns[i]);
		whole = fwrite(&r, sizeof(r), 1, file) == 1;
	}
	if (file && fclose(file))
		whole = false;
	if (!whole)
		die("the log %s is incomplete: %s", options.log, strerror(errno));
}

/* --- the socket -------------------------------------------------------------------------- */

static void enable_transmit_stamps(void)
{
	static const int kinds[] = {
		[STAMPS_SOFTWARE] = SOF_TIMESTAMPING_TX_SOFTWARE | SOF_TIMESTAMPING_SOFTWARE,
		[STAMPS_HARDWARE] = SOF_TIMESTAMPING_TX_HARDWARE | SOF_TIMESTAMPING_RAW_HARDWARE,
		[STAMPS_QUEUED] = SOF_TIMESTAMPING_TX_SCHED | SOF_TIMESTAMPING_SOFTWARE,
	};
	int bytes = ERROR_BUFFER_BYTES;

	/* OPT_ID counts the datagrams that the kernel accepted, from 0: our sequence numbers. */
	enable_stamps(fd, SOF_TIMESTAMPING_OPT_ID | SOF_TIMESTAMPING_OPT_TSONLY |
				  kinds[options.stamps]);
	/* Time stamps wait in the error queue, which the receive buffer limits. */
	if (setsockopt(fd, SOL_SOCKET, SO_RCVBUFFORCE, &bytes, sizeof(bytes)))
		setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &bytes, sizeof(bytes));
}

static void enable_txtime(void)
{
	struct sock_txtime txtime = { .clockid = options.clock->id,
				      .flags = SOF_TXTIME_REPORT_ERRORS };

	if (!setsockopt(fd, SOL_SOCKET, SO_TXTIME, &txtime, sizeof(txtime)))
		return;
	if (errno == EPERM)
		die("--txtime needs CAP_NET_ADMIN (run as root): the kernel refuses SO_TXTIME");
	if (errno == ENOPROTOOPT)
		die("--txtime needs Linux 4.19 or later: this kernel has no SO_TXTIME");
	die("the kernel refuses launch times on clock %s (SO_TXTIME): %s", options.clock->name,
	     strerror(errno));
}

static void open_socket(void)
{
	int discover = IP_PMTUDISC_DO;

	fd = open_udp(options.device);
	if (options.has_own && bind(fd, (struct sockaddr *)&options.own, sizeof(options.own)))
		die("the socket cannot be bound to the address of --bind: %s", strerror(errno));
	if (options.has_priority && setsockopt(fd, SOL_SOCKET, SO_PRIORITY, &options.priority,
					       sizeof(options.priority)))
		die("priority %d is refused (above 6 it needs CAP_NET_ADMIN): %s",
		     options.priority, strerror(errno));
	if (options.dont_fragment &&
	    setsockopt(fd, IPPROTO_IP, IP_MTU_DISCOVER, &discover, sizeof(discover)))
		die("the kernel refuses --dont-fragment: %s", strerror(errno));
	/* A smaller one than requested would limit the load. */
	if (options.send_buffer)
		set_buffer(fd, SO_SNDBUF, SO_SNDBUFFORCE, options.send_buffer);
	if (options.txtime)
		enable_txtime();
	if (options.stamps)
		enable_transmit_stamps();
	if (connect(fd, (struct sockaddr *)&options.destination, sizeof(options.destination)))
		die("there is no route to the address: %s", strerror(errno));
}

/* --- the socket's error queue ------------------------------------------------------------ */

static void read_stamp(const struct sock_extended_err *report, const struct scm_timestamping *times)
{
	const struct timespec *time = &times->ts[options.stamps == STAMPS_HARDWARE ? 2 : 0];

	if (!time->tv_sec || !options.log)
		return;
	uint64_t stamp = from_timespec(time);
	if (options.stamps != STAMPS_HARDWARE)
		stamp += (uint64_t)ahead_of_realtime(options.clock->id);
	log_stamp(report->ee_data, stamp);
}

static void read_report(struct msghdr *header)
{
	struct sock_extended_err report = { .ee_origin = SO_EE_ORIGIN_NONE };
	struct scm_timestamping times = { 0 };

	for (struct cmsghdr *c = CMSG_FIRSTHDR(header); c; c = CMSG_NXTHDR(header, c)) {
		if (c->cmsg_level == SOL_SOCKET && c->cmsg_type == SCM_TIMESTAMPING)
			memcpy(&times, CMSG_DATA(c), sizeof(times));
		else if (c->cmsg_level == IPPROTO_IP && c->cmsg_type == IP_RECVERR)
			memcpy(&report, CMSG_DATA(c), sizeof(report));
	}
	if (report.ee_origin == SO_EE_ORIGIN_TIMESTAMPING)
		read_stamp(&report, &times);
	else if (report.ee_origin == SO_EE_ORIGIN_TXTIME &&
		 report.ee_code == SO_EE_CODE_TXTIME_MISSED)
		counts.txtime_missed++;
	else if (report.ee_origin == SO_EE_ORIGIN_TXTIME)
		counts.txtime_invalid++;
}

static void read_error_queue(void)
{
	_Alignas(struct cmsghdr) uint8_t control[512];
	uint8_t data[64];
	struct iovec part = { data, sizeof(data) };

	for (;;) {
		struct msghdr header = { .msg_iov = &part, .msg_iovlen = 1,
					 .msg_control = control,
					 .msg_controllen = sizeof(control) };
		if (recvmsg(fd, &header, MSG_ERRQUEUE | MSG_DONTWAIT) < 0)
			return;
		read_report(&header);
	}
}

static void wait_for_last_stamps(void)
{
	struct pollfd queue = { .fd = fd };

	read_error_queue();
	while (options.stamps && counts.stamped < counts.sent &&
	       poll(&queue, 1, LAST_STAMPS_MS) > 0) {
		uint64_t before = counts.stamped;
		read_error_queue();
		if (counts.stamped == before)
			return;
	}
}

/* --- sending ----------------------------------------------------------------------------- */

static void prepare_messages(void)
{
	uint8_t *body = allocate(MAX_PAYLOAD_BYTES);

	memset(body, 0, MAX_PAYLOAD_BYTES);
	for (int i = 0; i < MAX_BURST; i++) {
		struct message *m = &messages[i];
		m->parts[0] = (struct iovec){ m->head, HEAD_BYTES };
		m->parts[1] = (struct iovec){ body, options.payload - HEAD_BYTES };
		calls[i].msg_hdr = (struct msghdr){ .msg_iov = m->parts, .msg_iovlen = 2 };
		if (!options.txtime)
			continue;
		struct cmsghdr *launch = (struct cmsghdr *)m->control;
		launch->cmsg_level = SOL_SOCKET;
		launch->cmsg_type = SCM_TXTIME;
		launch->cmsg_len = CMSG_LEN(sizeof(uint64_t));
		calls[i].msg_hdr.msg_control = m->control;
		calls[i].msg_hdr.msg_controllen = sizeof(m->control);
	}
}

static void fill(unsigned int count, uint64_t time)
{
	uint64_t big_time = htobe64(time);

	for (unsigned int i = 0; i < count; i++) {
		uint32_t number = htobe32((uint32_t)(counts.sent + i));
		memcpy(messages[i].head, &number, sizeof(number));
		memcpy(messages[i].head + sizeof(number), &big_time, sizeof(big_time));
		if (options.txtime)
			memcpy(CMSG_DATA((struct cmsghdr *)messages[i].control), &time,
			       sizeof(time));
	}
}

static void account(unsigned int sent, uint64_t wanted, uint64_t now, uint64_t inside)
{
	if (!counts.sent)
		counts.first_ns = inside;
	counts.last_ns = inside;
	if (options.log)
		for (unsigned int i = 0; i < sent; i++)
			log_sent(counts.sent + i, wanted, now);
	counts.sent += sent;
	counts.attempts += sent;
	counts.last_call_sent = sent;
}

/* Send `left` datagrams back to back; `wanted` is their slot, or 0. */
static void send_burst(unsigned int left, uint64_t wanted)
{
	while (left && !stopped) {
		uint64_t now = clock_ns(options.clock->id);
		uint64_t inside = options.txtime ? wanted : now;
		fill(left, inside);
		int sent = sendmmsg(fd, calls, left, 0);
		if (sent > 0) {
			account((unsigned int)sent, wanted, now, inside);
			left -= (unsigned int)sent;
		} else if (errno == ECONNREFUSED) {
			/* About an earlier datagram: nobody was listening. This one was not tried. */
			counts.refused_reports++;
		} else if (errno != EINTR) {
			count_error(&send_errors, errno);
			counts.attempts++;
			left--;
		}
	}
}

/* Wait until `due`; return how late it is then. */
static uint64_t wait_until(uint64_t due)
{
	for (;;) {
		uint64_t now = clock_ns(options.clock->id);
		if (now >= due || stopped)
			return now > due ? now - due : 0;
		if (due - now <= options.spin_ns)
			continue;
		uint64_t wake = due - options.spin_ns;
		if (wake - now > LONGEST_SLEEP_NS)
			wake = now + LONGEST_SLEEP_NS;
		struct timespec until = to_timespec(wake);
		clock_nanosleep(options.clock->id, TIMER_ABSTIME, &until, NULL);
	}
}

static unsigned int burst_now(void)
{
	uint64_t burst = options.bursts[next_burst];
	uint64_t left = options.count ? options.count - counts.attempts : burst;

	next_burst = (next_burst + 1) % options.burst_count;
	return (unsigned int)(left < burst ? left : burst);
}

/* Return the time from this slot to the next; of random slots, the mean. */
static uint64_t slot_ns(void)
{
	bool second = options.then_interval_ns && counts.attempts >= options.then_after;

	return second ? options.then_interval_ns : options.interval_ns;
}

/* splitmix64 (Steele, Lea, Flood 2014): any seed is valid, zero too. */
static uint64_t next_random(void)
{
	uint64_t z = options.random += 0x9e3779b97f4a7c15ULL;

	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ULL;
	z = (z ^ (z >> 27)) * 0x94d049bb133111ebULL;
	return z ^ (z >> 31);
}

static uint64_t gap_ns(void)
{
	if (!options.poisson)
		return slot_ns();
	/* 53 bits and a half: never 0, which has no logarithm. */
	double share = ((double)(next_random() >> 11) + 0.5) * 0x1p-53;
	return (uint64_t)(-log(share) * (double)slot_ns() + 0.5);
}

/* Return the number of datagrams in the next slots. */
static uint64_t in_slots(uint64_t slots)
{
	uint64_t datagrams = 0;

	for (unsigned int i = 0; i < options.burst_count; i++) {
		/* The i-th slot, and every burst_count-th after it. */
		uint64_t rounds = (slots + options.burst_count - 1 - i) / options.burst_count;
		datagrams += rounds * options.bursts[(next_burst + i) % options.burst_count];
	}
	return datagrams;
}

/* Return the number of datagrams from slot `due` to the end: of the time, or of the count if that is
 * less. */
static uint64_t owed(uint64_t start, uint64_t due)
{
	uint64_t left = start + options.seconds_ns - due;
	uint64_t datagrams = in_slots((left + slot_ns() - 1) / slot_ns());

	if (options.count && options.count - counts.attempts < datagrams)
		return options.count - counts.attempts;
	return datagrams;
}

static const char *send_paced(uint64_t start)
{
	uint64_t longest_ns = options.seconds_ns + options.seconds_ns / 10;

	uint64_t first = options.poisson ? start + gap_ns() : start;

	for (uint64_t due = first;; due += gap_ns()) {
		if (options.count && counts.attempts >= options.count)
			return "count";
		if (options.seconds_ns && due - start >= options.seconds_ns)
			return "time";
		uint64_t late = wait_until(due - options.txtime_ahead_ns);
		if (stopped)
			return "signal";
		if (options.seconds_ns && due + late - start >= longest_ns) {
			counts.unsent = owed(start, due);
			return "time";
		}
		if (late > options.late_ns)
			counts.late++;
		if (late > counts.worst_late_ns)
			counts.worst_late_ns = late;
		send_burst(burst_now(), due);
		if (options.stamps || options.txtime)
			read_error_queue();
	}
}

static const char *send_saturating(uint64_t start)
{
	wait_until(start);
	while (!stopped) {
		if (options.count && counts.attempts >= options.count)
			return "count";
		if (options.seconds_ns &&
		    clock_ns(options.clock->id) - start >= options.seconds_ns)
			return "time";
		send_burst(burst_now(), 0);
		if (options.stamps)
			read_error_queue();
	}
	return "signal";
}

static uint64_t start_time(void)
{
	uint64_t now = clock_ns(options.clock->id);

	if (options.start_ns && options.start_ns < now + options.txtime_ahead_ns)
		die("--start-ns %" PRIu64 " is %" PRIu64 " ns ago on clock %s (launch lead included)",
		     options.start_ns, now + options.txtime_ahead_ns - options.start_ns,
		     options.clock->name);
	if (options.start_ns)
		return options.start_ns;
	uint64_t earliest = now + LEAD_NS + options.txtime_ahead_ns;
	if (!options.cycle_ns)
		return earliest;
	return (earliest / options.cycle_ns + 1) * options.cycle_ns + options.phase_ns;
}

/* --- the report -------------------------------------------------------------------------- */

static void print_report(const char *ended_by, uint64_t start, int64_t step)
{
	const struct counts *c = &counts;
	/* The time from the first call to the last excludes the last call's datagrams. */
	uint64_t span = c->sent ? c->last_ns - c->first_ns : 0;
	double pps = span ? (double)(c->sent - c->last_call_sent) * (double)SECOND_NS / (double)span : 0;

	printf("{\"tool\": \"talker\", \"clock\": \"%s\", \"tai_offset_s\": %d, "
	       "\"clock_step_ns\": %" PRId64 ", \"stamp_clock\": \"%s\", \"ended_by\": \"%s\", "
	       "\"payload_bytes\": %" PRIu64 ", \"attempts\": %" PRIu64 ", \"sent\": %" PRIu64 ", ",
	       options.clock->name, tai_offset_s(), step,
	       stamp_clock(options.stamps, options.clock), ended_by, options.payload, c->attempts,
	       c->sent);
	printf("\"send_errors\": ");
	print_errors(&send_errors);
	printf(", \"refused_reports\": %" PRIu64 ", \"late\": %" PRIu64
	       ", \"unsent\": %" PRIu64 ", \"late_tolerance_ns\": %" PRIu64
	       ", \"worst_late_ns\": %" PRIu64
	       ", \"txtime_missed\": %" PRIu64 ", \"txtime_invalid\": %" PRIu64
	       ", \"missing_stamps\": %" PRIu64 ", \"start_ns\": %" PRIu64 ", ",
	       c->refused_reports, c->late, c->unsent, options.late_ns, c->worst_late_ns,
	       c->txtime_missed, c->txtime_invalid, options.stamps ? c->sent - c->stamped : 0, start);
	if (c->sent)
		printf("\"first_ns\": %" PRIu64 ", \"last_ns\": %" PRIu64 ", ", c->first_ns,
		       c->last_ns);
	else
		printf("\"first_ns\": null, \"last_ns\": null, ");
	if (span)
		printf("\"achieved_pps\": %.3f, \"payload_mbps\": %.6f}\n", pps,
		       pps * (double)options.payload * 8 / 1e6);
	else
		printf("\"achieved_pps\": null, \"payload_mbps\": null}\n");
}

/* --- the command line -------------------------------------------------------------------- */

enum {
	ADDRESS, PORT, PAYLOAD, INTERVAL, SATURATE, POISSON, BURST, THEN_AFTER, THEN_INTERVAL, COUNT,
	SECONDS, START, CYCLE, PHASE, CLOCK, SPIN, LATE, TXTIME, TXTIME_AHEAD, PRIORITY, BIND, DEVICE,
	DONT_FRAGMENT, SEND_BUFFER, LOG, STAMPS, STREAM, SHOW_CLOCK,
};

static const struct known_option known[] = {
	[ADDRESS] = {"address", "A", "IPv4 address of the listener; needed"},
	[PORT] = {"port", "N", "UDP port of the listener; needed"},
	[PAYLOAD] = {"payload", "BYTES", "UDP payload, 12 to 65507 bytes; needed"},
	[INTERVAL] = {"interval-ns", "NS", "time from slot to slot, 1 ns to an hour"},
	[SATURATE] = {"saturate", NULL, "send without pause instead"},
	[POISSON] = {"poisson", "SEED",
		     "exponential gaps with --interval-ns as their mean; the same seed gives the "
		     "same slots"},
	[BURST] = {"burst", "N[,N]...",
		   "datagrams per slot, 1 to 1024; of several numbers each slot takes the next, in "
		   "turn (default: 1, with --saturate 32)"},
	[THEN_AFTER] = {"then-after", "N", "after N attempts, slots are --then-interval-ns apart"},
	[THEN_INTERVAL] = {"then-interval-ns", "NS", "1 ns to an hour"},
	[COUNT] = {"count", "N", "stop after N attempts (default: no limit)"},
	[SECONDS] = {"seconds", "S", "stop after S seconds (default: no limit)"},
	[START] = {"start-ns", "NS",
		   "time of the first slot on the clock (default: 20 ms from now)"},
	[CYCLE] = {"cycle-ns", "NS",
		   "start at a multiple of this cycle plus --phase-ns, up to an hour"},
	[PHASE] = {"phase-ns", "NS", "below --cycle-ns (default: 0)"},
	[CLOCK] = {"clock", "NAME", "tai, realtime or monotonic (default: tai)"},
	[SPIN] = {"spin-ns", "NS",
		  "watch the clock for this long before a slot, up to 1 s (default: 60000)"},
	[LATE] = {"late-ns", "NS", "count a slot as late if it is sent more than this after its time (default: 10000)"},
	[TXTIME] = {"txtime", NULL,
		    "give the kernel the slot as launch time (SO_TXTIME); for an etf or fq qdisc"},
	[TXTIME_AHEAD] = {"txtime-ahead-ns", "NS",
			  "hand datagrams over this long before their launch time; needed by --txtime"},
	[PRIORITY] = {"priority", "N", "SO_PRIORITY, 0 to 15 (default: 0)"},
	[BIND] = {"bind", "A", "own IPv4 address (default: by route)"},
	[DEVICE] = {"device", "NAME", "send from this network device (default: by route)"},
	[DONT_FRAGMENT] = {"dont-fragment", NULL, "refuse datagrams above the path's MTU"},
	[SEND_BUFFER] = {"send-buffer", "BYTES",
			 "socket buffer for datagrams not yet sent, 2 to 2^30 bytes (default: "
			 "net.core.wmem_default)"},
	[LOG] = {"log", "FILE", "write a record for each datagram (default: none)"},
	[STAMPS] = {"timestamps", "KIND",
		    "software or hardware transmit time stamps, or queued: of entering the device's "
		    "queue; into the log (default: none)"},
	[STREAM] = {"stream", "N", "number of the stream in the log (default: 0)"},
	[SHOW_CLOCK] = {"show-clock", NULL, "print the clocks of this host as JSON and exit"},
	{NULL, NULL, NULL},
};

static const struct help help = {
	.purpose = "Send numbered UDP datagrams at exact times and print a report as JSON. Ends after\n"
		   "--count, after --seconds, or by SIGTERM or SIGINT. See talker(1).",
	.usage = "  talker --address A --port N --payload BYTES {--interval-ns NS | --saturate}"
		 " [OPTION]...\n"
		 "  talker --show-clock",
	.groups = {{"Options", known}},
	.example = "  talker --address 192.0.2.2 --port 5001 --payload 1000 \\\n"
		   "      --interval-ns 1000000 --count 1000",
};

static void parse_address(const char *option, struct sockaddr_in *address)
{
	if (inet_pton(AF_INET, optarg, &address->sin_addr) != 1)
		die("--%s takes an IPv4 address, not '%s'", option, optarg);
}

static void parse_bursts(void)
{
	options.burst_count = 0;
	for (char *text = strtok(optarg, ","); text; text = strtok(NULL, ",")) {
		if (options.burst_count == MAX_BURSTS)
			die("--burst takes %d numbers at most", MAX_BURSTS);
		options.bursts[options.burst_count++] = number(text, "--burst", 1, MAX_BURST);
	}
	if (!options.burst_count)
		die("--burst takes one number or several separated by commas");
}

static void apply_option(int option)
{
	const uint64_t an_hour = 3600 * SECOND_NS;
	struct options *o = &options;

	switch (option) {
	case ADDRESS: parse_address("address", &o->destination); break;
	case PORT:
		o->destination.sin_port = htons((uint16_t)number(optarg, "--port", 1, 65535));
		break;
	case PAYLOAD:
		o->payload = number(optarg, "--payload", HEAD_BYTES, MAX_PAYLOAD_BYTES);
		break;
	case INTERVAL: o->interval_ns = number(optarg, "--interval-ns", 1, an_hour); break;
	case BURST: parse_bursts(); break;
	case SATURATE: o->saturate = true; break;
	case COUNT: o->count = number(optarg, "--count", 1, UINT32_MAX); break;
	case SECONDS: o->seconds_ns = seconds(optarg, "--seconds"); break;
	case START: o->start_ns = number(optarg, "--start-ns", 1, INT64_MAX); break;
	case CYCLE: o->cycle_ns = number(optarg, "--cycle-ns", 1, an_hour); break;
	case PHASE: o->phase_ns = number(optarg, "--phase-ns", 0, an_hour); break;
	case PRIORITY:
		o->priority = (int)number(optarg, "--priority", 0, 15);
		o->has_priority = true;
		break;
	case TXTIME: o->txtime = true; break;
	case TXTIME_AHEAD:
		o->txtime_ahead_ns = number(optarg, "--txtime-ahead-ns", 1, an_hour);
		o->has_ahead = true;
		break;
	case STREAM: o->stream = number(optarg, "--stream", 0, UINT32_MAX); break;
	case LOG: o->log = optarg; break;
	case STAMPS:
		o->stamps = strcmp(optarg, "queued") ? parse_stamps(optarg) : STAMPS_QUEUED;
		break;
	case CLOCK: o->clock = parse_clock(optarg); break;
	case SPIN: o->spin_ns = number(optarg, "--spin-ns", 0, SECOND_NS); break;
	case LATE: o->late_ns = number(optarg, "--late-ns", 0, an_hour); break;
	case DONT_FRAGMENT: o->dont_fragment = true; break;
	case BIND:
		parse_address("bind", &o->own);
		o->has_own = true;
		break;
	case DEVICE: o->device = optarg; break;
	case THEN_AFTER: o->then_after = number(optarg, "--then-after", 1, UINT32_MAX); break;
	case THEN_INTERVAL:
		o->then_interval_ns = number(optarg, "--then-interval-ns", 1, an_hour);
		break;
	case SEND_BUFFER:
		o->send_buffer = number(optarg, "--send-buffer", 2, 1 << 30);
		break;
	case POISSON:
		o->random = number(optarg, "--poisson", 0, INT64_MAX);
		o->poisson = true;
		break;
	case SHOW_CLOCK: print_clocks(); exit(0);
	}
}

static void check_options(void)
{
	struct options *o = &options;

	if (!o->destination.sin_addr.s_addr || !o->destination.sin_port || !o->payload)
		die("--address, --port and --payload are needed");
	if (o->saturate == (o->interval_ns != 0))
		die("exactly one of --interval-ns and --saturate is needed");
	if (o->saturate && o->txtime)
		die("--txtime needs a time for each datagram: --interval-ns, not --saturate");
	if (o->saturate && o->poisson)
		die("--poisson needs a mean gap: --interval-ns, not --saturate");
	if (o->txtime != o->has_ahead)
		die("--txtime and --txtime-ahead-ns go together");
	if (o->start_ns && o->cycle_ns)
		die("one of --start-ns and --cycle-ns at most");
	if (o->phase_ns && o->phase_ns >= o->cycle_ns)
		die("--phase-ns must be below --cycle-ns");
	if (!o->then_after != !o->then_interval_ns || (o->then_after && o->saturate))
		die("--then-after and --then-interval-ns go together, and not with --saturate");
	if (o->stamps && !o->log)
		die("--timestamps needs --log, where the time stamps go");
	if (!o->burst_count)
		o->bursts[o->burst_count++] = o->saturate ? SATURATING_BURST : 1;
}

int main(int argc, char **argv)
{
	int option;

	while ((option = next_option(argc, argv, known, &help, 0)) != -1)
		apply_option(option);
	check_options();
	stop_on_signals();
	prctl(PR_SET_TIMERSLACK, 1UL);
	open_socket();
	prepare_messages();
	int64_t ahead = ahead_of_monotonic(options.clock->id);
	uint64_t start = start_time();
	const char *ended_by = options.saturate ? send_saturating(start) : send_paced(start);
	int64_t step = ahead_of_monotonic(options.clock->id) - ahead;
	wait_for_last_stamps();
	if (options.log)
		write_log();
	print_report(ended_by, start, step);
	if (fflush(stdout))
		return 1;
	if (counts.attempts && !counts.sent)
		die("the kernel accepted none of %" PRIu64 " datagrams; see send_errors",
		     counts.attempts);
	return 0;
}
