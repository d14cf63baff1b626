/* SPDX-License-Identifier: MIT
 *
 * delayline: a longer cable between two devices, which forwards every frame some time later; see
 * delayline(8).
 *
 * A frame waits where the kernel put it: in the ring of received frames, whose order is kept. Its
 * time of arrival is the kernel's (CLOCK_REALTIME). A frame that finds the ring full is lost and
 * counted, by the kernel.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <getopt.h>
#include <linux/if_ether.h>
#include <linux/if_packet.h>
#include <net/if.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "../program.h"

#define FRAME_BYTES 2048 /* an MTU of 1600, and the kernel's header of a frame */
#define BLOCK_BYTES (1 << 16)
#define RING_FRAMES (1 << 14) /* 100 ms at 160,000 frames/s */
#define BATCH 32
#define VLAN_BYTES 4
#define ADDRESS_BYTES (2 * ETH_ALEN)
#define PARTS 3
#define LARGEST_DELAY_NS 100000000

/* Histogram of how late frames left, jitter included, in steps of a microsecond; the last step is
 * open.
 */
#define LATENESS_STEPS 120000
#define STEP_NS 1000

struct direction {
	const char *from, *to;
	int in, out;
	uint64_t delay_ns;
	uint8_t *ring;
	unsigned int head;
	/* When the frame before `undrawn` is due, and the state of the generator of jitter. */
	unsigned int undrawn;
	uint64_t due_ns;
	unsigned short random[3];
	/* Written by the direction's thread, read by the one that prints. */
	uint64_t frames, bytes, send_errors, ring_drops;
	uint64_t largest_ns, smallest_ns;
	uint64_t lateness[LATENESS_STEPS];
};

static bool realtime;
static uint64_t jitter_ns;

/* The options, by the position in `known`. */
enum { JITTER };

static const struct known_option known[] = {
	[JITTER] = {"jitter", "NS", "delay each frame by up to so much more, uniformly distributed; frames\n"
				    "keep their order"},
	{NULL, NULL, NULL},
};

/* --- sockets ------------------------------------------------------------------------ */

static void set_option(int fd, int name, const void *value, socklen_t length, const char *what)
{
	if (setsockopt(fd, SOL_PACKET, name, value, length))
		die("the kernel refuses %s: %s", what, strerror(errno));
}

static void bind_to(int fd, const char *device, int protocol)
{
	struct sockaddr_ll address = {
		.sll_family = AF_PACKET,
		.sll_protocol = htons(protocol),
		.sll_ifindex = if_nametoindex(device),
	};

	if (!address.sll_ifindex)
		die("no network device '%s' in this namespace", device);
	if (bind(fd, (struct sockaddr *)&address, sizeof(address)))
		die("cannot bind to '%s': %s", device, strerror(errno));
}

static int packet_socket(void)
{
	/* Protocol 0 receives nothing until it is bound. */
	int fd = socket(AF_PACKET, SOCK_RAW, 0);

	if (fd < 0)
		die("cannot open a packet socket: %s", strerror(errno));
	return fd;
}

static void open_direction(struct direction *direction)
{
	struct tpacket_req ring = {
		.tp_frame_size = FRAME_BYTES,
		.tp_frame_nr = RING_FRAMES,
		.tp_block_size = BLOCK_BYTES,
		.tp_block_nr = RING_FRAMES / (BLOCK_BYTES / FRAME_BYTES),
	};
	int version = TPACKET_V2, one = 1;

	direction->in = packet_socket();
	set_option(direction->in, PACKET_VERSION, &version, sizeof(version), "TPACKET_V2");
	set_option(direction->in, PACKET_IGNORE_OUTGOING, &one, sizeof(one), "ignoring its own frames");
	set_option(direction->in, PACKET_RX_RING, &ring, sizeof(ring), "a ring of frames");
	direction->ring = mmap(NULL, (size_t)FRAME_BYTES * RING_FRAMES, PROT_READ | PROT_WRITE,
			       MAP_SHARED | MAP_LOCKED | MAP_POPULATE, direction->in, 0);
	if (direction->ring == MAP_FAILED)
		die("cannot map the ring of frames: %s", strerror(errno));
	direction->out = packet_socket();
	bind_to(direction->out, direction->to, 0);
	bind_to(direction->in, direction->from, ETH_P_ALL);
}

/* --- frames --------------------------------------------------------------------------- */

static struct tpacket2_hdr *frame_at(const struct direction *direction, unsigned int index)
{
	return (void *)(direction->ring + (size_t)(index % RING_FRAMES) * FRAME_BYTES);
}

static bool has_arrived(const struct tpacket2_hdr *frame)
{
	return __atomic_load_n(&frame->tp_status, __ATOMIC_ACQUIRE) & TP_STATUS_USER;
}

static uint64_t arrival_ns(const struct tpacket2_hdr *frame)
{
	return frame->tp_sec * SECOND_NS + frame->tp_nsec;
}

/* Return when a frame is due, not before the one ahead of it: the next to come draws its jitter. */
static uint64_t due_ns(struct direction *direction, unsigned int index)
{
	uint64_t due, latest;

	if (index == direction->undrawn) {
		due = arrival_ns(frame_at(direction, index)) + direction->delay_ns;
		latest = due + jitter_ns;
		if (jitter_ns)
			due += (uint64_t)(erand48(direction->random) * jitter_ns);
		/* The one ahead is due later than `latest` only if the clock was set back. */
		if (due > direction->due_ns || direction->due_ns > latest)
			direction->due_ns = due;
		direction->undrawn++;
	}
	return direction->due_ns;
}

/* Describe a frame to send. The kernel keeps a VLAN tag beside a received frame: put it back. */
static void describe(struct tpacket2_hdr *frame, struct iovec *parts, uint16_t *tag,
		     struct msghdr *message)
{
	uint8_t *data = (uint8_t *)frame + frame->tp_mac;
	bool vlan = frame->tp_status & TP_STATUS_VLAN_VALID;

	memset(message, 0, sizeof(*message));
	message->msg_iov = parts;
	if (!vlan) {
		parts[0] = (struct iovec){data, frame->tp_snaplen};
		message->msg_iovlen = 1;
		return;
	}
	tag[0] = htons(frame->tp_status & TP_STATUS_VLAN_TPID_VALID ? frame->tp_vlan_tpid
								     : ETH_P_8021Q);
	tag[1] = htons(frame->tp_vlan_tci);
	parts[0] = (struct iovec){data, ADDRESS_BYTES};
	parts[1] = (struct iovec){tag, VLAN_BYTES};
	parts[2] = (struct iovec){data + ADDRESS_BYTES, frame->tp_snaplen - ADDRESS_BYTES};
	message->msg_iovlen = PARTS;
}

static void count_frame(struct direction *direction, const struct tpacket2_hdr *frame, uint64_t left_ns)
{
	uint64_t delay = left_ns - arrival_ns(frame);
	uint64_t late = delay > direction->delay_ns ? delay - direction->delay_ns : 0;
	uint64_t step = late / STEP_NS;

	direction->frames++;
	direction->bytes += frame->tp_snaplen;
	direction->lateness[step < LATENESS_STEPS ? step : LATENESS_STEPS - 1]++;
	if (delay > direction->largest_ns)
		direction->largest_ns = delay;
	if (!direction->smallest_ns || delay < direction->smallest_ns)
		direction->smallest_ns = delay;
}

/* Send all; a frame that the device has no room for is lost, as on any full queue. */
static void send_frames(struct direction *direction, struct mmsghdr *messages, unsigned int count)
{
	unsigned int done = 0;
	int sent;

	while (done < count) {
		sent = sendmmsg(direction->out, messages + done, count - done, 0);
		if (sent > 0) {
			done += sent;
			continue;
		}
		if (errno == EINTR)
			continue;
		direction->send_errors++;
		done++;
	}
}

/* Send what is due; return whether anything was. */
static bool release_due(struct direction *direction)
{
	struct mmsghdr messages[BATCH] = {};
	struct iovec parts[BATCH][PARTS];
	uint16_t tags[BATCH][VLAN_BYTES / sizeof(uint16_t)];
	uint64_t now = clock_ns(CLOCK_REALTIME);
	unsigned int count = 0, index;
	struct tpacket2_hdr *frame;

	while (count < BATCH) {
		frame = frame_at(direction, direction->head + count);
		if (!has_arrived(frame) || due_ns(direction, direction->head + count) > now)
			break;
		describe(frame, parts[count], tags[count], &messages[count].msg_hdr);
		count++;
	}
	if (!count)
		return false;
	send_frames(direction, messages, count);
	now = clock_ns(CLOCK_REALTIME);
	for (index = 0; index < count; index++) {
		frame = frame_at(direction, direction->head + index);
		count_frame(direction, frame, now);
		__atomic_store_n(&frame->tp_status, TP_STATUS_KERNEL, __ATOMIC_RELEASE);
	}
	direction->head += count;
	return true;
}

static void wait_for_frame(const struct direction *direction)
{
	struct pollfd ready = {.fd = direction->in, .events = POLLIN};
	int error;
	socklen_t length = sizeof(error);

	poll(&ready, 1, -1);
	/* A device that was set down leaves an error, and poll returns at once until it is read. */
	if (ready.revents & POLLERR)
		getsockopt(direction->in, SOL_SOCKET, SO_ERROR, &error, &length);
}

static void *carry(void *argument)
{
	struct direction *direction = argument;
	struct tpacket2_hdr *frame;

	prctl(PR_SET_TIMERSLACK, 1UL);
	while (true) {
		if (release_due(direction))
			continue;
		frame = frame_at(direction, direction->head);
		if (has_arrived(frame))
			sleep_until(CLOCK_REALTIME, due_ns(direction, direction->head));
		else
			wait_for_frame(direction);
	}
	return NULL;
}

static void start(struct direction *direction)
{
	struct sched_param priority = {.sched_priority = 1};
	pthread_t thread;
	uint64_t seed = clock_ns(CLOCK_REALTIME);

	memcpy(direction->random, &seed, sizeof(direction->random));
	open_direction(direction);
	if (pthread_create(&thread, NULL, carry, direction))
		die("cannot start a thread");
	/* Ahead of ordinary programs, so that a frame leaves when it is due. */
	realtime = !pthread_setschedparam(thread, SCHED_FIFO, &priority);
}

/* --- statistics --------------------------------------------------------------------------- */

static double quantile_us(const struct direction *direction, double share)
{
	uint64_t wanted = share * direction->frames, seen = 0;
	unsigned int step;

	for (step = 0; step < LATENESS_STEPS - 1; step++) {
		seen += direction->lateness[step];
		if (seen > wanted)
			break;
	}
	return (direction->delay_ns + (uint64_t)step * STEP_NS) / 1e3;
}

static void print_direction(struct direction *direction)
{
	struct tpacket_stats kernel = {};
	socklen_t length = sizeof(kernel);

	/* Reading resets the kernel's count. */
	if (!getsockopt(direction->in, SOL_PACKET, PACKET_STATISTICS, &kernel, &length))
		direction->ring_drops += kernel.tp_drops;
	printf("\"%s\": {\"to\": \"%s\", \"frames\": %" PRIu64 ", \"bytes\": %" PRIu64
	       ", \"ring_drops\": %" PRIu64 ", \"send_errors\": %" PRIu64,
	       direction->from, direction->to, direction->frames, direction->bytes,
	       direction->ring_drops, direction->send_errors);
	printf(", \"delay_us\": {\"min\": %.3f, \"p50\": %.0f, \"p90\": %.0f, \"p99\": %.0f, "
	       "\"p999\": %.0f, \"max\": %.3f}}",
	       direction->smallest_ns / 1e3, quantile_us(direction, 0.5),
	       quantile_us(direction, 0.9), quantile_us(direction, 0.99),
	       quantile_us(direction, 0.999), direction->largest_ns / 1e3);
}

static void print_all(struct direction *directions)
{
	printf("{\"wanted_us\": %.3f, \"jitter_us\": %.3f, \"realtime\": %s, ",
	       directions[0].delay_ns / 1e3, jitter_ns / 1e3, realtime ? "true" : "false");
	print_direction(&directions[0]);
	fputs(", ", stdout);
	print_direction(&directions[1]);
	puts("}");
	fflush(stdout);
}

static const struct help help = {
	.purpose = "Forward every frame between two devices, both ways, some time after its "
		   "arrival.\nSee delayline(8).",
	.usage = "  delayline [--jitter NS] DEVICE DEVICE DELAY_NS\n\n"
		 "DELAY_NS is the delay in nanoseconds, 0 to 100000000. Prints 'ready', and statistics as a\n"
		 "line of JSON for each line of standard input, until that ends.",
	.groups = {{"Options", known}},
	.example = "  delayline eth1 eth2 250000        # 50 km of fibre",
};

int main(int argc, char **argv)
{
	static struct direction directions[2];
	char line[64];

	while (next_option(argc, argv, known, &help, 3) == JITTER)
		jitter_ns = number(optarg, "--jitter", 0, LARGEST_DELAY_NS);
	if (argc - optind != 3)
		die("two devices and a delay are needed; see delayline --help");
	directions[0].from = directions[1].to = argv[optind];
	directions[0].to = directions[1].from = argv[optind + 1];
	directions[0].delay_ns = directions[1].delay_ns =
		number(argv[optind + 2], "DELAY_NS", 0, LARGEST_DELAY_NS);
	start(&directions[0]);
	start(&directions[1]);
	puts("ready");
	fflush(stdout);
	while (fgets(line, sizeof(line), stdin))
		print_all(directions);
	return 0;
}
