/* SPDX-License-Identifier: MIT
 *
 * talker: send numbered datagrams at exact times, each with its number and send time inside.
 *
 *   talker --address A --port P --payload BYTES (--interval-ns N | --saturate) OPTIONS
 *   talker --show-clock              print this host's clocks as JSON and end
 *
 * Pacing. Slot k is due at start + k x interval on the chosen clock, whatever happened before, so
 * nothing drifts. The program sleeps until --spin-ns before a slot and then watches the clock.
 * A slot that comes up late is sent at once and counted as late (more than --late-ns); the slots
 * after it are not moved, so a stall is followed by the datagrams that it held up. A talker that
 * cannot keep up ends a tenth of --seconds late at the latest; what it owed is counted as unsent.
 *
 * Random slots. With --poisson SEED the gaps before and between slots are independent and exponential
 * with --interval-ns as their mean; a seed gives the same slots again.
 *
 * Bursts. --burst N hands over N datagrams in each slot; of --burst N,M,... each slot has the next, and
 * after the last the first follows again.
 *
 * A second rate. From attempt --then-after on slots are --then-interval-ns apart.
 *
 * Times. The payload carries the reading of the clock just before the kernel is called; the
 * datagrams of a --burst are handed over by one call and carry one time. With --txtime it carries
 * the launch time asked for instead: the slot's. The kernel ignores launch times where no etf (or
 * fq) queue is on the way out, and does not say so.
 *
 * Numbers. A number is used up when the kernel took its datagram, so 0 ... sent-1 were all sent;
 * what the kernel refused is counted in send_errors. --count counts attempts, refused included.
 *
 * --send-buffer is what the kernel sets aside for datagrams that have not left the last queue of this
 * machine; where hosts and switches share it, a smaller one holds the talker up before a switch drops.
 *
 * Prints one JSON object at the end: after --count, after --seconds, at SIGTERM or SIGINT.
 */
#define _GNU_SOURCE
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
#define MAX_BURSTS 256 /* different ones, one after the other */
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
	uint64_t stream, random;
	int priority, send_buffer;
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

static void log_stamp(uint32_t number, uint64_t stamp)
{
	if (number >= counts.sent)
		return;
	struct record *record = &chunks[number / CHUNK_RECORDS][number % CHUNK_RECORDS];
	if (!record->times_ns[2])
		counts.stamped++;
	record->times_ns[2] = stamp;
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
		fail("the log %s is not whole: %s", options.log, strerror(errno));
}

/* --- the socket -------------------------------------------------------------------------- */

static void ask_for_stamps(void)
{
	/* OPT_ID counts the datagrams that the kernel took from 0: our sequence numbers. */
	int flags = SOF_TIMESTAMPING_OPT_ID | SOF_TIMESTAMPING_OPT_TSONLY;
	int bytes = ERROR_BUFFER_BYTES;

	flags |= options.stamps == STAMPS_SOFTWARE ?
			 SOF_TIMESTAMPING_TX_SOFTWARE | SOF_TIMESTAMPING_SOFTWARE :
			 SOF_TIMESTAMPING_TX_HARDWARE | SOF_TIMESTAMPING_RAW_HARDWARE;
	if (setsockopt(fd, SOL_SOCKET, SO_TIMESTAMPING, &flags, sizeof(flags)))
		fail("the kernel refuses transmit time stamps (SO_TIMESTAMPING): %s",
		     strerror(errno));
	/* Stamps wait in the error queue, which the receive buffer bounds. */
	if (setsockopt(fd, SOL_SOCKET, SO_RCVBUFFORCE, &bytes, sizeof(bytes)))
		setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &bytes, sizeof(bytes));
}

static void ask_for_txtime(void)
{
	struct sock_txtime txtime = { .clockid = options.clock->id,
				      .flags = SOF_TXTIME_REPORT_ERRORS };

	if (!setsockopt(fd, SOL_SOCKET, SO_TXTIME, &txtime, sizeof(txtime)))
		return;
	if (errno == EPERM)
		fail("--txtime needs CAP_NET_ADMIN (run as root): the kernel refuses SO_TXTIME");
	if (errno == ENOPROTOOPT)
		fail("--txtime needs Linux 4.19 or later: this kernel has no SO_TXTIME");
	fail("the kernel refuses launch times on clock %s (SO_TXTIME): %s", options.clock->name,
	     strerror(errno));
}

/* Sets aside a buffer beyond the host's limit, or fails: a smaller one would bound the load. */
static void ask_for_buffer(void)
{
	int half = options.send_buffer / 2, got = 0;
	socklen_t length = sizeof(got);

	if (setsockopt(fd, SOL_SOCKET, SO_SNDBUFFORCE, &half, sizeof(half)))
		setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &half, sizeof(half));
	if (getsockopt(fd, SOL_SOCKET, SO_SNDBUF, &got, &length) || got < 2 * half)
		fail("the send buffer is %d bytes and not %d: that needs CAP_NET_ADMIN", got,
		     options.send_buffer);
}

static void open_socket(void)
{
	int discover = IP_PMTUDISC_DO;

	fd = socket(AF_INET, SOCK_DGRAM, 0);
	if (fd < 0)
		fail("no UDP socket: %s", strerror(errno));
	if (options.device && setsockopt(fd, SOL_SOCKET, SO_BINDTODEVICE, options.device,
					 (socklen_t)strlen(options.device) + 1))
		fail("the socket cannot be bound to device %s: %s", options.device, strerror(errno));
	if (options.has_own && bind(fd, (struct sockaddr *)&options.own, sizeof(options.own)))
		fail("the socket cannot be bound to the address of --bind: %s", strerror(errno));
	if (options.has_priority && setsockopt(fd, SOL_SOCKET, SO_PRIORITY, &options.priority,
					       sizeof(options.priority)))
		fail("priority %d is refused (above 6 it needs CAP_NET_ADMIN): %s",
		     options.priority, strerror(errno));
	if (options.dont_fragment &&
	    setsockopt(fd, IPPROTO_IP, IP_MTU_DISCOVER, &discover, sizeof(discover)))
		fail("the kernel refuses --dont-fragment: %s", strerror(errno));
	if (options.send_buffer)
		ask_for_buffer();
	if (options.txtime)
		ask_for_txtime();
	if (options.stamps)
		ask_for_stamps();
	if (connect(fd, (struct sockaddr *)&options.destination, sizeof(options.destination)))
		fail("there is no route to the address: %s", strerror(errno));
}

/* --- what comes back by the error queue --------------------------------------------------- */

static void read_stamp(const struct sock_extended_err *report, const struct scm_timestamping *times)
{
	const struct timespec *time = &times->ts[options.stamps == STAMPS_HARDWARE ? 2 : 0];

	if (!time->tv_sec || !options.log)
		return;
	uint64_t stamp = from_timespec(time);
	if (options.stamps == STAMPS_SOFTWARE)
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

/* Sends `left` datagrams back to back; `wanted` is 0 where no time was wanted. */
static void send_burst(unsigned int left, uint64_t wanted)
{
	while (left && !stopped) {
		uint64_t now = read_clock(options.clock->id);
		uint64_t inside = options.txtime ? wanted : now;
		fill(left, inside);
		int sent = sendmmsg(fd, calls, left, 0);
		if (sent > 0) {
			account((unsigned int)sent, wanted, now, inside);
			left -= (unsigned int)sent;
		} else if (errno == ECONNREFUSED) {
			/* About an earlier datagram: nobody listened. This one was not tried. */
			counts.refused_reports++;
		} else if (errno != EINTR) {
			count_error(&send_errors, errno);
			counts.attempts++;
			left--;
		}
	}
}

/* Waits until `due`; returns how late it is then. */
static uint64_t wait_until(uint64_t due)
{
	for (;;) {
		uint64_t now = read_clock(options.clock->id);
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

/* Time from the present slot to the next: of random slots, the mean. */
static uint64_t slot_ns(void)
{
	bool second = options.then_interval_ns && counts.attempts >= options.then_after;

	return second ? options.then_interval_ns : options.interval_ns;
}

/* splitmix64 (Steele, Lea, Flood 2014): any seed will do, zero too. */
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
	/* 53 bits and a half: never 0, whose logarithm is none. */
	double share = ((double)(next_random() >> 11) + 0.5) * 0x1p-53;
	return (uint64_t)(-log(share) * (double)slot_ns() + 0.5);
}

/* Datagrams of the next slots. */
static uint64_t in_slots(uint64_t slots)
{
	uint64_t datagrams = 0;

	for (unsigned int i = 0; i < options.burst_count; i++) {
		/* Of the slots the i-th and each that follows it by a whole round. */
		uint64_t rounds = (slots + options.burst_count - 1 - i) / options.burst_count;
		datagrams += rounds * options.bursts[(next_burst + i) % options.burst_count];
	}
	return datagrams;
}

/* Datagrams of the slots from `due` to the end of the time, or of the count if that is less. */
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
		    read_clock(options.clock->id) - start >= options.seconds_ns)
			return "time";
		send_burst(burst_now(), 0);
		if (options.stamps)
			read_error_queue();
	}
	return "signal";
}

static uint64_t start_time(void)
{
	uint64_t now = read_clock(options.clock->id);

	if (options.start_ns && options.start_ns < now + options.txtime_ahead_ns)
		fail("--start-ns %" PRIu64 " is %" PRIu64 " ns ago on clock %s (launch lead included)",
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
	/* From the first call to the last, the last call's datagrams do not count. */
	uint64_t span = c->sent ? c->last_ns - c->first_ns : 0;
	double pps = span ? (double)(c->sent - c->last_call_sent) * (double)NS_PER_S / (double)span : 0;

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
	ADDRESS, PORT, PAYLOAD, INTERVAL, BURST, SATURATE, COUNT, SECONDS, START, CYCLE, PHASE,
	PRIORITY, TXTIME, TXTIME_AHEAD, STREAM, LOG, STAMPS, CLOCK, SPIN, LATE, DONT_FRAGMENT,
	BIND, DEVICE, SHOW_CLOCK, THEN_AFTER, THEN_INTERVAL, SEND_BUFFER, POISSON,
};

static const struct option known_options[] = {
	{ "address", required_argument, NULL, ADDRESS },
	{ "port", required_argument, NULL, PORT },
	{ "payload", required_argument, NULL, PAYLOAD },
	{ "interval-ns", required_argument, NULL, INTERVAL },
	{ "burst", required_argument, NULL, BURST },
	{ "saturate", no_argument, NULL, SATURATE },
	{ "count", required_argument, NULL, COUNT },
	{ "seconds", required_argument, NULL, SECONDS },
	{ "start-ns", required_argument, NULL, START },
	{ "cycle-ns", required_argument, NULL, CYCLE },
	{ "phase-ns", required_argument, NULL, PHASE },
	{ "priority", required_argument, NULL, PRIORITY },
	{ "txtime", no_argument, NULL, TXTIME },
	{ "txtime-ahead-ns", required_argument, NULL, TXTIME_AHEAD },
	{ "stream", required_argument, NULL, STREAM },
	{ "log", required_argument, NULL, LOG },
	{ "timestamps", required_argument, NULL, STAMPS },
	{ "clock", required_argument, NULL, CLOCK },
	{ "spin-ns", required_argument, NULL, SPIN },
	{ "late-ns", required_argument, NULL, LATE },
	{ "dont-fragment", no_argument, NULL, DONT_FRAGMENT },
	{ "bind", required_argument, NULL, BIND },
	{ "device", required_argument, NULL, DEVICE },
	{ "then-after", required_argument, NULL, THEN_AFTER },
	{ "then-interval-ns", required_argument, NULL, THEN_INTERVAL },
	{ "send-buffer", required_argument, NULL, SEND_BUFFER },
	{ "poisson", required_argument, NULL, POISSON },
	{ "show-clock", no_argument, NULL, SHOW_CLOCK },
	{ NULL, 0, NULL, 0 },
};

static void parse_address(const char *option, struct sockaddr_in *address)
{
	if (inet_pton(AF_INET, optarg, &address->sin_addr) != 1)
		fail("--%s takes an IPv4 address, not '%s'", option, optarg);
}

static void parse_bursts(void)
{
	options.burst_count = 0;
	for (char *text = strtok(optarg, ","); text; text = strtok(NULL, ",")) {
		if (options.burst_count == MAX_BURSTS)
			fail("--burst takes %d numbers at most", MAX_BURSTS);
		options.bursts[options.burst_count++] = parse_number("burst", text, 1, MAX_BURST);
	}
	if (!options.burst_count)
		fail("--burst takes one number or several with commas, not none");
}

static void read_option(int option)
{
	const uint64_t an_hour = 3600 * NS_PER_S;
	struct options *o = &options;

	switch (option) {
	case ADDRESS: parse_address("address", &o->destination); break;
	case PORT:
		o->destination.sin_port = htons((uint16_t)parse_number("port", optarg, 1, 65535));
		break;
	case PAYLOAD:
		o->payload = parse_number("payload", optarg, HEAD_BYTES, MAX_PAYLOAD_BYTES);
		break;
	case INTERVAL: o->interval_ns = parse_number("interval-ns", optarg, 1, an_hour); break;
	case BURST: parse_bursts(); break;
	case SATURATE: o->saturate = true; break;
	case COUNT: o->count = parse_number("count", optarg, 1, UINT32_MAX); break;
	case SECONDS: o->seconds_ns = parse_seconds(optarg); break;
	case START: o->start_ns = parse_number("start-ns", optarg, 1, INT64_MAX); break;
	case CYCLE: o->cycle_ns = parse_number("cycle-ns", optarg, 1, an_hour); break;
	case PHASE: o->phase_ns = parse_number("phase-ns", optarg, 0, an_hour); break;
	case PRIORITY:
		o->priority = (int)parse_number("priority", optarg, 0, 15);
		o->has_priority = true;
		break;
	case TXTIME: o->txtime = true; break;
	case TXTIME_AHEAD:
		o->txtime_ahead_ns = parse_number("txtime-ahead-ns", optarg, 1, an_hour);
		o->has_ahead = true;
		break;
	case STREAM: o->stream = parse_number("stream", optarg, 0, UINT32_MAX); break;
	case LOG: o->log = optarg; break;
	case STAMPS: o->stamps = parse_stamps(optarg); break;
	case CLOCK: o->clock = parse_clock(optarg); break;
	case SPIN: o->spin_ns = parse_number("spin-ns", optarg, 0, NS_PER_S); break;
	case LATE: o->late_ns = parse_number("late-ns", optarg, 0, an_hour); break;
	case DONT_FRAGMENT: o->dont_fragment = true; break;
	case BIND:
		parse_address("bind", &o->own);
		o->has_own = true;
		break;
	case DEVICE: o->device = optarg; break;
	case THEN_AFTER: o->then_after = parse_number("then-after", optarg, 1, UINT32_MAX); break;
	case THEN_INTERVAL:
		o->then_interval_ns = parse_number("then-interval-ns", optarg, 1, an_hour);
		break;
	case SEND_BUFFER:
		o->send_buffer = (int)parse_number("send-buffer", optarg, 2, 1 << 30);
		break;
	case POISSON:
		o->random = parse_number("poisson", optarg, 0, INT64_MAX);
		o->poisson = true;
		break;
	case SHOW_CLOCK: print_clocks(); exit(0);
	default: fail("see the head of talker.c for the options");
	}
}

static void check_options(void)
{
	struct options *o = &options;

	if (!o->destination.sin_addr.s_addr || !o->destination.sin_port || !o->payload)
		fail("--address, --port and --payload are needed");
	if (o->saturate == (o->interval_ns != 0))
		fail("one of --interval-ns and --saturate is needed, not both");
	if (o->saturate && o->txtime)
		fail("--txtime needs a time for each datagram: --interval-ns, not --saturate");
	if (o->saturate && o->poisson)
		fail("--poisson needs a mean gap: --interval-ns, not --saturate");
	if (o->txtime != o->has_ahead)
		fail("--txtime and --txtime-ahead-ns go together");
	if (o->start_ns && o->cycle_ns)
		fail("one of --start-ns and --cycle-ns at most");
	if (o->phase_ns && o->phase_ns >= o->cycle_ns)
		fail("--phase-ns must be below --cycle-ns");
	if (!o->then_after != !o->then_interval_ns || (o->then_after && o->saturate))
		fail("--then-after and --then-interval-ns go together, and not with --saturate");
	if (o->stamps && !o->log)
		fail("--timestamps needs --log: the stamps are written there");
	if (!o->burst_count)
		o->bursts[o->burst_count++] = o->saturate ? SATURATING_BURST : 1;
}

int main(int argc, char **argv)
{
	int option;

	while ((option = getopt_long(argc, argv, "", known_options, NULL)) != -1)
		read_option(option);
	if (optind < argc)
		fail("no option takes '%s'", argv[optind]);
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
		fail("the kernel took none of %" PRIu64 " datagrams; send_errors says why",
		     counts.attempts);
	return 0;
}
