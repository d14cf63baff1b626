/* SPDX-License-Identifier: MIT
 *
 * listener: receive numbered datagrams on UDP ports and log every one of them; see listener(1).
 */
#include <getopt.h>
#include <net/if.h>
#include <netinet/in.h>
#include <arpa/inet.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <linux/errqueue.h>
#include <linux/sock_diag.h>

#include "stream.h"

#define MAX_PORTS 64
#define BATCH 64
#define CONTROL_BYTES 128
#define BATCHES_PER_TURN 16
/* A signal between the check and the wait is noticed after this long. */
#define LONGEST_WAIT_NS 50000000ULL
#define SPARE_CHUNKS 4
#define SEEN_BYTES (1ULL << 29) /* a bit for each of 2^32 numbers; only touched pages use memory */

struct source {
	int fd;
	uint32_t port;
	uint64_t received, unique, duplicates, out_of_order, short_datagrams, bytes;
	uint64_t first_ns, last_ns, longest_gap_ns;
	uint32_t longest_gap_after, last_sequence;
	uint64_t next_expected; /* may be 2^32 */
	uint64_t missing_stamps, drops;
	uint64_t buffer_bytes;
	uint64_t *seen;
};

struct chunk {
	struct chunk *next;
	size_t used;
	struct record records[CHUNK_RECORDS];
};

/* Full chunks go to a thread that writes, so that a slow disk never holds up the sockets. */
struct log {
	FILE *file;
	const char *path;
	struct chunk *current, *spare, *full, **full_end;
	pthread_t writer;
	pthread_mutex_t lock;
	pthread_cond_t more;
	bool ending;
	int error;
	uint64_t records;
};

struct options {
	struct in_addr address;
	const char *device;
	uint64_t seconds_ns, quiet_ns, count, buffer_bytes;
	int realtime; /* priority under SCHED_FIFO, or 0 */
	enum stamps stamps;
	const struct named_clock *clock;
};

static struct source sources[MAX_PORTS];
static struct pollfd waiting[MAX_PORTS];
static size_t ports;
static struct log arrivals;
static struct options options;
static struct errors receive_errors;
static uint64_t total_received, last_arrival_ns; /* the latter on CLOCK_MONOTONIC */

/* --- the log ----------------------------------------------------------------------------- */

static void *write_chunks(void *unused)
{
	pthread_mutex_lock(&arrivals.lock);
	for (;;) {
		while (!arrivals.full && !arrivals.ending)
			pthread_cond_wait(&arrivals.more, &arrivals.lock);
		struct chunk *chunk = arrivals.full;
		if (!chunk)
			break;
		arrivals.full = chunk->next;
		if (!arrivals.full)
			arrivals.full_end = &arrivals.full;
		pthread_mutex_unlock(&arrivals.lock);
		errno = 0;
		size_t written = fwrite(chunk->records, sizeof(struct record), chunk->used,
					arrivals.file);
		int error = written == chunk->used ? 0 : errno ? errno : EIO;
		pthread_mutex_lock(&arrivals.lock);
		if (error && !arrivals.error)
			arrivals.error = error;
		chunk->used = 0;
		chunk->next = arrivals.spare;
		arrivals.spare = chunk;
	}
	pthread_mutex_unlock(&arrivals.lock);
	return unused;
}

static struct chunk *new_chunk(void)
{
	struct chunk *chunk = allocate(sizeof(*chunk));

	memset(chunk, 0, sizeof(*chunk)); /* touch the pages before datagrams arrive */
	return chunk;
}

static void open_log(const char *path)
{
	arrivals.path = path;
	arrivals.file = fopen(path, "wb");
	if (!arrivals.file)
		die("the log %s cannot be written: %s", path, strerror(errno));
	setvbuf(arrivals.file, NULL, _IONBF, 0);
	for (int i = 0; i < SPARE_CHUNKS; i++) {
		struct chunk *chunk = new_chunk();
		chunk->next = arrivals.spare;
		arrivals.spare = chunk;
	}
	arrivals.current = new_chunk();
	arrivals.full_end = &arrivals.full;
	pthread_mutex_init(&arrivals.lock, NULL);
	pthread_cond_init(&arrivals.more, NULL);
	if (pthread_create(&arrivals.writer, NULL, write_chunks, NULL))
		die("no thread for the log: %s", strerror(errno));
}

static void hand_over_chunk(void)
{
	struct chunk *chunk = arrivals.current;

	pthread_mutex_lock(&arrivals.lock);
	chunk->next = NULL;
	*arrivals.full_end = chunk;
	arrivals.full_end = &chunk->next;
	arrivals.current = arrivals.spare;
	if (arrivals.current)
		arrivals.spare = arrivals.current->next;
	pthread_cond_signal(&arrivals.more);
	pthread_mutex_unlock(&arrivals.lock);
	if (!arrivals.current)
		arrivals.current = new_chunk();
}

static void log_arrival(uint32_t stream, uint32_t sequence, uint64_t sent, uint64_t received,
			uint64_t stamped)
{
	struct chunk *chunk = arrivals.current;

	chunk->records[chunk->used++] = (struct record){
		.stream = htole32(stream),
		.sequence = htole32(sequence),
		.times_ns = { htole64(sent), htole64(received), htole64(stamped) },
	};
	arrivals.records++;
	if (chunk->used == CHUNK_RECORDS)
		hand_over_chunk();
}

static void close_log(void)
{
	hand_over_chunk();
	pthread_mutex_lock(&arrivals.lock);
	arrivals.ending = true;
	pthread_cond_signal(&arrivals.more);
	pthread_mutex_unlock(&arrivals.lock);
	pthread_join(arrivals.writer, NULL);
	if (fclose(arrivals.file) && !arrivals.error)
		arrivals.error = errno;
	if (arrivals.error)
		die("the log %s is incomplete: %s", arrivals.path, strerror(arrivals.error));
}

/* --- sockets ----------------------------------------------------------------------------- */

/* Run this thread, which reads the sockets, before every ordinary program; the log's writer, started
 * before, stays ordinary. */
static void run_in_real_time(void)
{
	struct sched_param parameters = { .sched_priority = options.realtime };

	if (sched_setscheduler(0, SCHED_FIFO, &parameters))
		die("real-time priority %d (SCHED_FIFO) was refused: %s; it needs CAP_SYS_NICE",
		     options.realtime, strerror(errno));
}

static void open_source(uint32_t port)
{
	struct source *source = &sources[ports];
	struct sockaddr_in own = { .sin_family = AF_INET, .sin_port = htons((uint16_t)port),
				   .sin_addr = options.address };
	int on = 1;

	source->port = port;
	source->fd = open_udp(options.device);
	source->buffer_bytes = (uint64_t)set_buffer(source->fd, SO_RCVBUF, SO_RCVBUFFORCE,
						    options.buffer_bytes);
	setsockopt(source->fd, SOL_SOCKET, SO_RXQ_OVFL, &on, sizeof(on));
	if (options.stamps)
		enable_stamps(source->fd, options.stamps == STAMPS_SOFTWARE ?
			SOF_TIMESTAMPING_RX_SOFTWARE | SOF_TIMESTAMPING_SOFTWARE :
			SOF_TIMESTAMPING_RX_HARDWARE | SOF_TIMESTAMPING_RAW_HARDWARE);
	source->seen = mmap(NULL, SEEN_BYTES, PROT_READ | PROT_WRITE,
			    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (source->seen == MAP_FAILED)
		die("no address space for the table of seen numbers: %s", strerror(errno));
	if (bind(source->fd, (struct sockaddr *)&own, sizeof(own)))
		die("UDP port %" PRIu32 " cannot be bound: %s", port, strerror(errno));
	waiting[ports++] = (struct pollfd){ .fd = source->fd, .events = POLLIN };
}

/* --- receiving --------------------------------------------------------------------------- */

static void account(struct source *source, uint32_t sequence, uint64_t now)
{
	uint64_t bit = 1ULL << (sequence % 64), *word = &source->seen[sequence / 64];

	if (source->received) {
		uint64_t gap = now > source->last_ns ? now - source->last_ns : 0;
		if (gap > source->longest_gap_ns) {
			source->longest_gap_ns = gap;
			source->longest_gap_after = source->last_sequence;
		}
	} else {
		source->first_ns = now;
	}
	source->received++;
	source->last_ns = now;
	source->last_sequence = sequence;
	if (*word & bit) {
		source->duplicates++;
		return;
	}
	*word |= bit;
	source->unique++;
	if (source->unique > 1 && sequence < source->next_expected)
		source->out_of_order++;
	else
		source->next_expected = (uint64_t)sequence + 1;
}

/* Read the control messages of a datagram: its time stamp, and the socket's drops before it. */
static uint64_t read_control(struct source *source, struct msghdr *header, int64_t ahead)
{
	uint64_t stamp = 0;

	for (struct cmsghdr *c = CMSG_FIRSTHDR(header); c; c = CMSG_NXTHDR(header, c)) {
		if (c->cmsg_level != SOL_SOCKET)
			continue;
		if (c->cmsg_type == SCM_TIMESTAMPING) {
			struct scm_timestamping times;
			memcpy(&times, CMSG_DATA(c), sizeof(times));
			if (options.stamps == STAMPS_HARDWARE)
				stamp = from_timespec(&times.ts[2]);
			else if (times.ts[0].tv_sec)
				stamp = from_timespec(&times.ts[0]) + (uint64_t)ahead;
		} else if (c->cmsg_type == SO_RXQ_OVFL) {
			uint32_t drops;
			memcpy(&drops, CMSG_DATA(c), sizeof(drops));
			source->drops = drops;
		}
	}
	return stamp;
}

struct batch {
	struct mmsghdr messages[BATCH];
	struct iovec parts[BATCH];
	uint8_t heads[BATCH][HEAD_BYTES];
	_Alignas(struct cmsghdr) uint8_t controls[BATCH][CONTROL_BYTES];
};

static void prepare(struct batch *batch)
{
	for (int i = 0; i < BATCH; i++) {
		batch->parts[i] = (struct iovec){ batch->heads[i], HEAD_BYTES };
		batch->messages[i].msg_hdr = (struct msghdr){
			.msg_iov = &batch->parts[i],
			.msg_iovlen = 1,
			.msg_control = batch->controls[i],
		};
	}
}

static void read_datagram(struct source *source, struct mmsghdr *message, uint64_t now, int64_t ahead)
{
	const uint8_t *head = message->msg_hdr.msg_iov->iov_base;
	uint32_t sequence;
	uint64_t sent, stamp = read_control(source, &message->msg_hdr, ahead);

	if (message->msg_len < HEAD_BYTES) {
		source->short_datagrams++;
		return;
	}
	memcpy(&sequence, head, sizeof(sequence));
	memcpy(&sent, head + sizeof(sequence), sizeof(sent));
	sequence = be32toh(sequence);
	account(source, sequence, now);
	source->bytes += message->msg_len;
	source->missing_stamps += options.stamps && !stamp;
	total_received++;
	if (arrivals.file)
		log_arrival(source->port, sequence, be64toh(sent), now, stamp);
}

/* Read what waits at a socket, a few batches at most; return whether anything did. */
static bool receive(struct source *source, struct batch *batch)
{
	bool any = false;

	for (int turn = 0; turn < BATCHES_PER_TURN; turn++) {
		for (int i = 0; i < BATCH; i++)
			batch->messages[i].msg_hdr.msg_controllen = CONTROL_BYTES;
		/* MSG_TRUNC: the true length, though the head alone is copied. */
		int count = recvmmsg(source->fd, batch->messages, BATCH, MSG_DONTWAIT | MSG_TRUNC,
				     NULL);
		if (count < 0) {
			if (errno != EAGAIN && errno != EINTR)
				count_error(&receive_errors, errno);
			return any;
		}
		uint64_t now = clock_ns(options.clock->id);
		int64_t ahead = options.stamps == STAMPS_SOFTWARE ?
					ahead_of_realtime(options.clock->id) : 0;
		for (int i = 0; i < count; i++)
			read_datagram(source, &batch->messages[i], now, ahead);
		any = true;
		if (count < BATCH)
			return any;
	}
	return any;
}

/* Return why to end, or NULL; `wait` becomes the time until the next reason may arise. */
static const char *reason_to_end(uint64_t began, uint64_t *wait)
{
	uint64_t now = clock_ns(CLOCK_MONOTONIC);

	*wait = LONGEST_WAIT_NS;
	if (stopped)
		return "signal";
	if (options.count && total_received >= options.count)
		return "count";
	if (options.seconds_ns) {
		if (now - began >= options.seconds_ns)
			return "time";
		if (options.seconds_ns - (now - began) < *wait)
			*wait = options.seconds_ns - (now - began);
	}
	if (options.quiet_ns && total_received) {
		if (now - last_arrival_ns >= options.quiet_ns)
			return "quiet";
		if (options.quiet_ns - (now - last_arrival_ns) < *wait)
			*wait = options.quiet_ns - (now - last_arrival_ns);
	}
	return NULL;
}

static const char *listen_until_the_end(void)
{
	static struct batch batch;
	uint64_t began = clock_ns(CLOCK_MONOTONIC), wait;
	const char *reason;

	prepare(&batch);
	for (;;) {
		bool any = false;
		for (size_t i = 0; i < ports; i++)
			any |= receive(&sources[i], &batch);
		if (any)
			last_arrival_ns = clock_ns(CLOCK_MONOTONIC);
		reason = reason_to_end(began, &wait);
		if (reason)
			return reason;
		if (!any) {
			struct timespec longest = to_timespec(wait);
			ppoll(waiting, ports, &longest, NULL);
		}
	}
}

/* --- the report -------------------------------------------------------------------------- */

static void read_drops(struct source *source)
{
	uint32_t counters[SK_MEMINFO_VARS];
	socklen_t length = sizeof(counters);

	/* SO_RXQ_OVFL counts drops before the last datagram; this includes those after it. */
	if (!getsockopt(source->fd, SOL_SOCKET, SO_MEMINFO, counters, &length) &&
	    length > SK_MEMINFO_DROPS * sizeof(uint32_t) &&
	    counters[SK_MEMINFO_DROPS] > source->drops)
		source->drops = counters[SK_MEMINFO_DROPS];
}

static void print_time(const char *name, uint64_t value, bool known)
{
	if (known)
		printf("\"%s\": %" PRIu64 ", ", name, value);
	else
		printf("\"%s\": null, ", name);
}

static void print_source(const struct source *s)
{
	printf("{\"port\": %" PRIu32 ", \"received\": %" PRIu64 ", \"unique\": %" PRIu64
	       ", \"duplicates\": %" PRIu64 ", \"out_of_order\": %" PRIu64
	       ", \"short_datagrams\": %" PRIu64 ", \"bytes\": %" PRIu64 ", ",
	       s->port, s->received, s->unique, s->duplicates, s->out_of_order,
	       s->short_datagrams, s->bytes);
	print_time("first_ns", s->first_ns, s->received);
	print_time("last_ns", s->last_ns, s->received);
	print_time("longest_gap_ns", s->longest_gap_ns, s->received > 1);
	print_time("longest_gap_after", s->longest_gap_after, s->received > 1);
	printf("\"missing_stamps\": %" PRIu64 ", \"socket_drops\": %" PRIu64
	       ", \"buffer_bytes\": %" PRIu64 "}",
	       s->missing_stamps, s->drops, s->buffer_bytes);
}

static void print_report(const char *ended_by, int64_t step)
{
	printf("{\"tool\": \"listener\", \"clock\": \"%s\", \"tai_offset_s\": %d, "
	       "\"clock_step_ns\": %" PRId64 ", \"stamp_clock\": \"%s\", \"ended_by\": \"%s\", "
	       "\"logged\": %" PRIu64 ", \"realtime_priority\": %d, \"receive_errors\": ",
	       options.clock->name, tai_offset_s(), step, stamp_clock(options.stamps, options.clock),
	       ended_by, arrivals.records, options.realtime);
	print_errors(&receive_errors);
	printf(", \"streams\": [");
	for (size_t i = 0; i < ports; i++) {
		if (i)
			printf(", ");
		print_source(&sources[i]);
	}
	printf("]}\n");
}

/* --- the command line -------------------------------------------------------------------- */

enum { PORT, BIND, DEVICE, COUNT, SECONDS, QUIET, BUFFER, REALTIME, LOG, STAMPS, CLOCK, SHOW_CLOCK };

static const struct known_option known[] = {
	[PORT] = {"port", "N", "UDP port to listen on; 1 to 64 times"},
	[BIND] = {"bind", "A", "own IPv4 address (default: all)"},
	[DEVICE] = {"device", "NAME", "receive from this network device only (default: all)"},
	[COUNT] = {"count", "N", "stop after N datagrams (default: no limit)"},
	[SECONDS] = {"seconds", "S", "stop after S seconds (default: no limit)"},
	[QUIET] = {"quiet-ms", "MS",
		   "stop after this long without a datagram, from the first one on, up to an hour "
		   "(default: never)"},
	[BUFFER] = {"buffer-bytes", "BYTES",
		    "receive buffer of each socket as the kernel counts it, up to 2^31 (default: "
		    "net.core.rmem_default)"},
	[REALTIME] = {"realtime", "N",
		      "read under SCHED_FIFO with this priority, 1 to 99 (default: as an ordinary "
		      "program)"},
	[LOG] = {"log", "FILE", "write a record for each datagram (default: none)"},
	[STAMPS] = {"timestamps", "KIND",
		    "software or hardware receive time stamps, into the log (default: none)"},
	[CLOCK] = {"clock", "NAME", "tai, realtime or monotonic (default: tai)"},
	[SHOW_CLOCK] = {"show-clock", NULL, "print the clocks of this host as JSON and exit"},
	{NULL, NULL, NULL},
};

static const struct help help = {
	.purpose = "Receive the datagrams of talker(1), print 'ready' once the ports are open and a report\n"
		   "as JSON at the end. Ends at the first of --count, --quiet-ms, --seconds, SIGTERM or\n"
		   "SIGINT. See listener(1).",
	.usage = "  listener --port N [--port N]... [OPTION]...\n"
		 "  listener --show-clock",
	.groups = {{"Options", known}},
	.example = "  listener --port 5001 --count 1000 --quiet-ms 500 --log arrivals",
};

struct command_line {
	uint32_t ports[MAX_PORTS];
	size_t count;
	const char *log;
};

static void add_port(struct command_line *line, uint32_t port)
{
	if (line->count == MAX_PORTS)
		die("--port is given more than %d times", MAX_PORTS);
	for (size_t i = 0; i < line->count; i++)
		if (line->ports[i] == port)
			die("--port %" PRIu32 " is given twice", port);
	line->ports[line->count++] = port;
}

static void apply_option(int option, struct command_line *line)
{
	switch (option) {
	case PORT: add_port(line, (uint32_t)number(optarg, "--port", 1, 65535)); break;
	case BIND:
		if (inet_pton(AF_INET, optarg, &options.address) != 1)
			die("--bind takes an IPv4 address, not '%s'", optarg);
		break;
	case DEVICE: options.device = optarg; break;
	case LOG: line->log = optarg; break;
	case SECONDS: options.seconds_ns = seconds(optarg, "--seconds"); break;
	case QUIET: options.quiet_ns = number(optarg, "--quiet-ms", 1, 3600000) * 1000000; break;
	case COUNT: options.count = number(optarg, "--count", 1, UINT64_MAX); break;
	case BUFFER: options.buffer_bytes = number(optarg, "--buffer-bytes", 1, 1u << 31); break;
	case REALTIME: options.realtime = (int)number(optarg, "--realtime", 1, 99); break;
	case STAMPS: options.stamps = parse_stamps(optarg); break;
	case CLOCK: options.clock = parse_clock(optarg); break;
	case SHOW_CLOCK: print_clocks(); exit(0);
	}
}

int main(int argc, char **argv)
{
	struct command_line line = { .count = 0 };
	int option;

	options.clock = &clocks[0];
	while ((option = next_option(argc, argv, known, &help, 0)) != -1)
		apply_option(option, &line);
	if (!line.count)
		die("--port is missing: at least one UDP port to listen on");
	stop_on_signals();
	prctl(PR_SET_TIMERSLACK, 1UL);
	if (line.log)
		open_log(line.log);
	for (size_t i = 0; i < line.count; i++)
		open_source(line.ports[i]);
	if (options.realtime)
		run_in_real_time();
	puts("ready");
	fflush(stdout);
	int64_t ahead = ahead_of_monotonic(options.clock->id);
	const char *ended_by = listen_until_the_end();
	int64_t step = ahead_of_monotonic(options.clock->id) - ahead;
	for (size_t i = 0; i < ports; i++)
		read_drops(&sources[i]);
	if (arrivals.file)
		close_log();
	print_report(ended_by, step);
	return fflush(stdout) ? 1 : 0;
}
