/* SPDX-License-Identifier: MIT
 *
 * tsn-bridge: a TSN bridge in user space on DPDK.
 *
 *   tsn-bridge --settings FILE --port DEVICE --port DEVICE ... [--driver NAME] [--control NAME]
 *   tsn-bridge --ask counters|addresses [--control NAME]
 *   tsn-bridge --ask settings FILE [--control NAME]      new rates, gates and shapes of all ports
 *
 * Ports are network devices, by DPDK's driver net_af_packet or another that is named; a port given
 * as a PCI address is a card bound to DPDK. It reads no huge pages and leaves no file.
 *
 * Threads are called as in the design that this follows: Rx takes frames in (receive.c), Tx sends
 * them (transmit.c), OS, the first thread, answers and watches the ports (control.c).
 *
 * Prints "ready" once frames are forwarded, and its counters as JSON when SIGTERM or SIGINT ends it.
 */
#define _GNU_SOURCE
#include "bridge.h"

#include <dirent.h>
#include <errno.h>
#include <getopt.h>
#include <net/if.h>
#include <poll.h>
#include <pthread.h>
#include <rte_eal.h>
#include <rte_errno.h>
#include <rte_ethdev.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <linux/if_packet.h>

enum {
	POOL_FRAMES = 16384,
	POOL_CACHE = 256,
	RING_FRAMES = 1024,
	DESCRIPTORS = 512,
	MOST_ARGUMENTS = 32,
	ARGUMENT_BYTES = 160,
	/* Every processor is named once at most: four digits, and a comma or a dash. */
	PROCESSORS_BYTES = 5 * CPU_SETSIZE + 1,
	/* All of them for every thread: the first, one to receive a port, one to send. */
	LCORES_BYTES = 16 + (MOST_PORTS + 2) * (PROCESSORS_BYTES + 16),
	WATCH_MS = 50,
	AGE_S = 1,
	SPIN_PS = 5000000, /* waiting for less is not worth a sleep */
	LONGEST_FRAME = 9000,
};

struct bridge the_bridge;

struct options {
	const char *settings, *driver, *control, *ask;
	const char *ports[MOST_PORTS];
	int port_count;
	char **rest;
	int rest_count;
};

static void fail(const char *format, ...) __attribute__((format(printf, 1, 2), noreturn));

static void fail(const char *format, ...)
{
	va_list arguments;

	fputs("tsn-bridge: ", stderr);
	va_start(arguments, format);
	vfprintf(stderr, format, arguments);
	va_end(arguments);
	fputc('\n', stderr);
	exit(1);
}

static void usage(void)
{
	fputs("usage: tsn-bridge --settings FILE --port DEVICE --port DEVICE ... [--driver NAME] "
		  "[--control NAME]\n       tsn-bridge --ask counters|addresses|settings [FILE] "
		  "[--control NAME]\n", stderr);
	exit(2);
}

static struct options parse(int count, char **words)
{
	static const struct option known[] = {
		{"settings", required_argument, NULL, 's'}, {"port", required_argument, NULL, 'p'},
		{"driver", required_argument, NULL, 'd'},   {"control", required_argument, NULL, 'c'},
		{"ask", required_argument, NULL, 'a'},      {0},
	};
	struct options options = {.driver = "net_af_packet", .control = "tsn-bridge"};
	int letter;

	while ((letter = getopt_long(count, words, "", known, NULL)) != -1)
		switch (letter) {
		case 's': options.settings = optarg; break;
		case 'd': options.driver = optarg; break;
		case 'c': options.control = optarg; break;
		case 'a': options.ask = optarg; break;
		case 'p':
			if (options.port_count == MOST_PORTS)
				fail("there are at most %d ports", MOST_PORTS);
			options.ports[options.port_count++] = optarg;
			break;
		default: exit(2);
		}
	options.rest = words + optind;
	options.rest_count = count - optind;
	if (options.ask ? options.rest_count > 1
					: options.rest_count > 0 || !options.settings || options.port_count < 2)
		usage();
	return options;
}

static void read_settings(struct bridge *bridge, const char *path)
{
	char problem[256];
	FILE *file = fopen(path, "r");

	if (!file)
		fail("%s: it cannot be read", path);
	if (!settings_read(file, &bridge->settings, problem, sizeof problem))
		fail("%s: %s", path, problem);
	fclose(file);
}

/* --- DPDK ---------------------------------------------------------------------------------- */

static bool is_card(const char *name) { return strchr(name, ':') != NULL; }

/* Add to a text of so many bytes. */
static void append(char *text, size_t room, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

static void append(char *text, size_t room, const char *format, ...)
{
	size_t used = strlen(text);
	va_list arguments;

	va_start(arguments, format);
	int added = vsnprintf(text + used, room - used, format, arguments);
	va_end(arguments);
	if (added < 0 || (size_t)added >= room - used)
		fail("the processors that may be used take more than %zu bytes to list", room);
}

static cpu_set_t allowed_processors(void)
{
	cpu_set_t allowed;

	if (sched_getaffinity(0, sizeof allowed, &allowed))
		fail("the processors cannot be counted: %s", strerror(errno));
	return allowed;
}

/* List the processors that this program may use, as DPDK reads them: 0-3,8. */
static void list_processors(const cpu_set_t *allowed, char *list, size_t room)
{
	list[0] = 0;
	for (int first = 0, last; first < CPU_SETSIZE; first = last + 1) {
		last = first;
		if (!CPU_ISSET(first, allowed))
			continue;
		while (last + 1 < CPU_SETSIZE && CPU_ISSET(last + 1, allowed))
			last++;
		append(list, room, "%s%d", *list ? "," : "", first);
		if (last > first)
			append(list, room, "-%d", last);
	}
}

static int next_processor(const cpu_set_t *allowed, int before)
{
	int number = before + 1;
	while (number < CPU_SETSIZE && !CPU_ISSET(number, allowed))
		number++;
	return number;
}

/* Rx threads: one, or one a port; a Tx thread of its own unless one thread does both. */
static int receivers(const struct bridge *bridge)
{
	return bridge->settings.receiver_each ? bridge->port_count : 1;
}

static int workers(const struct bridge *bridge)
{
	return receivers(bridge) + (bridge->together ? 0 : 1);
}

/*
 * Threads that poll without rest get processors of their own where there are as many; the others
 * share all there are.
 */
static void list_lcores(const struct bridge *bridge, char *list, size_t room)
{
	cpu_set_t allowed = allowed_processors();
	char all[PROCESSORS_BYTES];

	list_processors(&allowed, all, sizeof all);
	bool own = bridge->settings.sleep_us == 0 && CPU_COUNT(&allowed) > workers(bridge);
	int one = next_processor(&allowed, -1);
	list[0] = 0;
	append(list, room, "--lcores=0@(%s)", all);
	for (int number = 1; number <= workers(bridge); number++) {
		one = next_processor(&allowed, one);
		if (own)
			append(list, room, ",%d@(%d)", number, one);
		else
			append(list, room, ",%d@(%s)", number, all);
	}
}

static int frame_room(const struct bridge *bridge)
{
	int room = 2048;
	while (room < bridge->longest_bytes + 256)
		room *= 2;
	return room;
}

/* Remove a folder and those that it lies in, up to the outermost: they are empty. */
static void remove_folders(const char *inner, const char *outermost)
{
	char path[ARGUMENT_BYTES];

	snprintf(path, sizeof path, "%s", inner);
	while (!strncmp(path, outermost, strlen(outermost)) && rmdir(path) == 0 &&
	       strcmp(path, outermost))
		*strrchr(path, '/') = 0;
}

static void start_dpdk(struct bridge *bridge, const struct options *options)
{
	static char texts[MOST_ARGUMENTS][ARGUMENT_BYTES * 2];
	static char lcores[LCORES_BYTES];
	char *arguments[MOST_ARGUMENTS + 1];
	/*
	 * DPDK makes folders to share with other processes, which there are none of: in a place of
	 * our own, and gone before the bridge works, so that they do not outlive one that is killed.
	 */
	char folder[] = "/tmp/tsn-bridge-XXXXXX";
	static const char *const fixed[] = {
		"tsn-bridge", "--no-huge", "--no-shconf", "--no-telemetry", "--log-level=error", "-m",
	};
	int count = 0, cards = 0;

	if (!mkdtemp(folder) || setenv("RUNTIME_DIRECTORY", folder, 1))
		fail("%s: it cannot be made", folder);
	for (size_t number = 0; number < sizeof fixed / sizeof *fixed; number++)
		snprintf(texts[count++], sizeof *texts, "%s", fixed[number]);
	snprintf(texts[count++], sizeof *texts, "%d",
			 32 + (int)((int64_t)POOL_FRAMES * (frame_room(bridge) + 512) >> 20));
	for (int number = 0; number < options->port_count; number++) {
		const char *name = options->ports[number];
		if (is_card(name)) {
			cards++;
			snprintf(texts[count++], sizeof *texts, "--allow=%s", name);
		} else if (!strcmp(options->driver, "net_af_packet")) {
			int room = frame_room(bridge);
			snprintf(texts[count++], sizeof *texts,
					 "--vdev=%s%d,iface=%s,blocksz=%d,framesz=%d,framecnt=%d,qdisc_bypass=1",
					 options->driver, number, name, room * 2, room, RING_FRAMES);
		} else {
			snprintf(texts[count++], sizeof *texts, "--vdev=%s%d,iface=%s", options->driver,
					 number, name);
		}
	}
	if (!cards)
		snprintf(texts[count++], sizeof *texts, "--no-pci");
	for (int number = 0; number < count; number++)
		arguments[number] = texts[number];
	list_lcores(bridge, lcores, sizeof lcores);
	arguments[count++] = lcores;
	bool started = rte_eal_init(count, arguments) >= 0;
	int problem = rte_errno;
	remove_folders(rte_eal_get_runtime_dir(), folder);
	if (!started)
		fail("DPDK does not start with these ports: %s", rte_strerror(problem));
}

static void check(int status, const char *what, const char *port)
{
	if (status < 0)
		fail("port %s: %s: %s", port, what, rte_strerror(-status));
}

/* Find the socket by which the driver reads a device, to wait for frames and to count drops. */
static int driver_socket(int index)
{
	DIR *folder = opendir("/proc/self/fd");
	struct dirent *entry;
	int found = -1;

	while (folder && found < 0 && (entry = readdir(folder))) {
		struct sockaddr_ll address = {0};
		socklen_t length = sizeof address;
		int number = atoi(entry->d_name);
		if (entry->d_name[0] != '.' &&
			getsockname(number, (struct sockaddr *)&address, &length) == 0 &&
			address.sll_family == AF_PACKET && address.sll_ifindex == index)
			found = number;
	}
	if (folder)
		closedir(folder);
	return found;
}

/*
 * Hear all frames at a device, not only those to its own address: as long as this program has a
 * socket for it. What a driver sets on the device itself would stay when the program is killed.
 */
static void hear_all(struct port *port)
{
	struct packet_mreq wanted = {.mr_ifindex = port->index, .mr_type = PACKET_MR_PROMISC};

	port->hearing = socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC, 0); /* of no protocol: gets none */
	if (port->hearing < 0 ||
		setsockopt(port->hearing, SOL_PACKET, PACKET_ADD_MEMBERSHIP, &wanted, sizeof wanted))
		fail("port %s: it cannot hear frames to other addresses: %s", port->name, strerror(errno));
}

static void open_port(struct bridge *bridge, int place, const struct options *options)
{
	struct port *port = &bridge->ports[place];
	const char *name = options->ports[place];
	struct rte_eth_conf configuration = {0};
	char vdev[64], ring[32];

	snprintf(port->name, sizeof port->name, "%s", name);
	snprintf(vdev, sizeof vdev, "%s%d", options->driver, place);
	check(rte_eth_dev_get_port_by_name(is_card(name) ? name : vdev, &port->number),
		  "the driver does not know it", name);
	check(rte_eth_dev_configure(port->number, 1, 1, &configuration), "configuring", name);
	check(rte_eth_rx_queue_setup(port->number, 0, DESCRIPTORS, SOCKET_ID_ANY, NULL, bridge->pool),
		  "its receive queue", name);
	check(rte_eth_tx_queue_setup(port->number, 0, DESCRIPTORS, SOCKET_ID_ANY, NULL),
		  "its transmit queue", name);
	check(rte_eth_dev_start(port->number), "starting", name);
	port->index = (int)if_nametoindex(name);
	port->hearing = -1;
	if (port->index)
		hear_all(port);
	else
		rte_eth_promiscuous_enable(port->number);
	port->socket = port->index ? driver_socket(port->index) : -1;
	snprintf(ring, sizeof ring, "handoff%d", place);
	unsigned alone = bridge->settings.receiver_each ? 0 : RING_F_SP_ENQ;
	port->handoff = rte_ring_create(ring, HANDOFF_FRAMES, SOCKET_ID_ANY, RING_F_SC_DEQ | alone);
	if (!port->handoff || !scheduler_open(&port->scheduler,
										  settings_of_port(&bridge->settings, name),
										  bridge->epoch_ns))
		fail("port %s: no memory for its queues", name);
}

static int port_by_name(const struct bridge *bridge, const char *name)
{
	for (int number = 0; number < bridge->port_count; number++)
		if (!strcmp(bridge->ports[number].name, name))
			return number;
	return NOWHERE;
}

static void pin_addresses(struct bridge *bridge)
{
	for (int number = 0; number < bridge->settings.static_count; number++) {
		const struct static_address *address = &bridge->settings.statics[number];
		int port = port_by_name(bridge, address->port);
		if (port == NOWHERE)
			fail("a static address is at %s, which is none of the ports", address->port);
		table_pin(address->mac, address->vlan, port);
	}
}

static void *close_driver(void *port)
{
	uint16_t number = ((struct port *)port)->number;

	rte_eth_dev_stop(number);
	rte_eth_dev_close(number);
	return NULL;
}

static void *stop_hearing(void *port)
{
	close(((struct port *)port)->hearing);
	return NULL;
}

/*
 * Close all sockets of ports at a time. The kernel lets go of one only when no processor can be
 * using it any more, which takes tens of milliseconds, one after the other where a process just
 * ends. One that no thread can be had for is closed by that end.
 */
static void close_ports(struct bridge *bridge)
{
	pthread_t threads[2 * MOST_PORTS];
	int started = 0;

	for (int number = 0; number < bridge->port_count; number++) {
		struct port *port = &bridge->ports[number];
		if (pthread_create(&threads[started], NULL, close_driver, port) == 0)
			started++;
		if (port->hearing >= 0 && pthread_create(&threads[started], NULL, stop_hearing, port) == 0)
			started++;
	}
	while (started > 0)
		pthread_join(threads[--started], NULL);
}

/* --- ports that come and go ---------------------------------------------------------------- */

static bool device_runs(int query, const char *name)
{
	struct ifreq request = {0};

	snprintf(request.ifr_name, sizeof request.ifr_name, "%s", name);
	return ioctl(query, SIOCGIFFLAGS, &request) == 0 &&
		   (request.ifr_flags & (IFF_UP | IFF_RUNNING)) == (IFF_UP | IFF_RUNNING);
}

static bool card_runs(const struct port *port)
{
	struct rte_eth_link link;

	return rte_eth_link_get_nowait(port->number, &link) == 0 && link.link_status;
}

static void watch_ports(struct bridge *bridge)
{
	static int query = -1;

	if (query < 0)
		query = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	for (int number = 0; number < bridge->port_count; number++) {
		struct port *port = &bridge->ports[number];
		bool up = port->index ? device_runs(query, port->name) : card_runs(port);
		if (atomic_exchange(&port->up, up) && !up)
			atomic_store(&port->forget, true);
	}
}

/* --- threads ------------------------------------------------------------------------------- */

/* Wait until a frame arrives, or the time at which a scheduler wants to look again. */
static void rest(struct bridge *bridge, int first, int last, int64_t look_again)
{
	struct pollfd sockets[MOST_PORTS];
	int64_t limit = bridge->settings.sleep_us * 1000000;
	int count = 0;

	if (look_again != NEVER) {
		int64_t left = look_again - now_ps(bridge);
		limit = left < limit ? left : limit;
	}
	if (limit <= SPIN_PS)
		return;
	struct timespec time = {limit / 1000 / SECOND_NS, limit / 1000 % SECOND_NS};
	for (int number = first; number < last; number++)
		if (bridge->ports[number].socket >= 0)
			sockets[count++] = (struct pollfd){.fd = bridge->ports[number].socket, .events = POLLIN};
	ppoll(sockets, (nfds_t)count, &time, NULL);
	for (int number = 0; number < count; number++)
		if (sockets[number].revents & POLLERR) {
			/* As when the device went down; reading the error is what clears it. */
			int error;
			socklen_t length = sizeof error;
			getsockopt(sockets[number].fd, SOL_SOCKET, SO_ERROR, &error, &length);
		}
}

static void keep_table(struct bridge *bridge)
{
	static int64_t aged_s;
	int64_t now_s = clock_ns(CLOCK_MONOTONIC_COARSE) / SECOND_NS;

	for (int number = 0; number < bridge->port_count; number++)
		if (atomic_load(&bridge->ports[number].forget) &&
			atomic_exchange(&bridge->ports[number].forget, false))
			table_forget(number);
	if (now_s >= aged_s + AGE_S) {
		table_age(now_s, bridge->settings.ageing_s);
		aged_s = now_s;
	}
}

/* Give a thread exact timers and, where that is wanted, priority over ordinary programs. */
static void prepare_thread(const struct bridge *bridge)
{
	struct sched_param first = {.sched_priority = 1};

	prctl(PR_SET_TIMERSLACK, 1UL);
	if (bridge->settings.realtime && sched_setscheduler(0, SCHED_FIFO, &first))
		fail("realtime is refused: it needs CAP_SYS_NICE");
}

static int run_receiver(void *ports)
{
	struct bridge *bridge = &the_bridge;
	int first = bridge->settings.receiver_each ? (int)(intptr_t)ports : 0;
	int last = bridge->settings.receiver_each ? first + 1 : bridge->port_count;

	prepare_thread(bridge);
	while (!atomic_load_explicit(&bridge->ending, memory_order_relaxed)) {
		int64_t look_again = NEVER;
		bool any = receive_turn(bridge, first, last);
		if (first == 0)
			keep_table(bridge);
		if (bridge->together)
			any |= transmit_turn(bridge, &look_again);
		if (!any && bridge->settings.sleep_us > 0)
			rest(bridge, first, last, look_again);
	}
	return 0;
}

static int run_sender(void *nothing)
{
	struct bridge *bridge = &the_bridge;

	(void)nothing;
	prepare_thread(bridge);
	while (!atomic_load_explicit(&bridge->ending, memory_order_relaxed)) {
		int64_t look_again;
		if (!transmit_turn(bridge, &look_again) && bridge->settings.sleep_us > 0)
			rest(bridge, 0, 0, look_again);
	}
	return 0;
}

static void end(int signal)
{
	(void)signal;
	atomic_store(&the_bridge.ending, true);
}

static void start_threads(struct bridge *bridge)
{
	for (int number = 0; number < receivers(bridge); number++)
		rte_eal_remote_launch(run_receiver, (void *)(intptr_t)number, (unsigned)number + 1);
	if (!bridge->together)
		rte_eal_remote_launch(run_sender, NULL, (unsigned)workers(bridge));
}

static void prepare(struct bridge *bridge, const struct options *options)
{
	read_settings(bridge, options->settings);
	bridge->port_count = options->port_count;
	bridge->together = !bridge->settings.receiver_each && bridge->settings.threads != 2;
	if (!bridge->settings.receiver_each && bridge->settings.threads == 0) {
		cpu_set_t allowed = allowed_processors();
		bridge->together = CPU_COUNT(&allowed) < 3;
	}
	bridge->longest_bytes = bridge->settings.common.longest_bytes;
	for (int number = 0; number < options->port_count; number++) {
		const struct scheduler_settings *port =
			settings_of_port(&bridge->settings, options->ports[number]);
		if (port->longest_bytes > bridge->longest_bytes)
			bridge->longest_bytes = port->longest_bytes;
	}
	if (bridge->longest_bytes > LONGEST_FRAME)
		fail("longest_bytes is at most %d", LONGEST_FRAME);
}

int main(int count, char **words)
{
	struct bridge *bridge = &the_bridge;
	struct options options = parse(count, words);

	if (options.ask) {
		char *request[] = {(char *)(uintptr_t)options.ask,
						   options.rest_count ? options.rest[0] : NULL};
		return control_ask(options.control, 1 + options.rest_count, request);
	}
	prepare(bridge, &options);
	/* First of all, so that a second bridge of the same name stops before it touches a port. */
	if (!control_open(options.control))
		fail("a bridge is called %s in this network namespace already", options.control);
	start_dpdk(bridge, &options);
	signal(SIGTERM, end);
	signal(SIGINT, end);
	bridge->epoch_ns = clock_ns(CLOCK_TAI) / SECOND_NS * SECOND_NS;
	bridge->pool = rte_pktmbuf_pool_create(
		"frames", POOL_FRAMES, POOL_CACHE, 0,
		(uint16_t)(frame_room(bridge) + RTE_PKTMBUF_HEADROOM), SOCKET_ID_ANY);
	if (!bridge->pool || !table_open())
		fail("no memory for frames and addresses");
	for (int place = 0; place < bridge->port_count; place++)
		open_port(bridge, place, &options);
	pin_addresses(bridge);
	watch_ports(bridge);
	start_threads(bridge);
	puts("ready");
	fflush(stdout);
	while (!atomic_load(&bridge->ending)) {
		control_serve(bridge, WATCH_MS);
		watch_ports(bridge);
	}
	rte_eal_mp_wait_lcore();
	print_counters(stdout, bridge);
	close_ports(bridge);
	return 0;
}
