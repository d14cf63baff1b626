/* SPDX-License-Identifier: MIT
 *
 * tsn-bridge: a TSN bridge in user space on DPDK; see tsn-bridge(8).
 *
 * The first thread answers requests and watches the ports (control.c, ports.c); others receive and
 * send (threads.c).
 */
#include <getopt.h>
#include <rte_launch.h>
#include <signal.h>

#include "state.h"

enum { WATCH_MS = 50, LONGEST_FRAME = 9000 };

static struct bridge the_bridge;

struct options {
	const char *settings, *driver, *control, *query;
	const char *ports[MOST_PORTS];
	int port_count;
};

enum { SETTINGS, PORT, DRIVER, CONTROL, QUERY };

static const struct known_option known[] = {
	[SETTINGS] = {"settings", "FILE", "the bridge's settings, see tsn-bridge(8)"},
	[PORT] = {"port", "DEVICE",
		  "a network device, or the PCI address of a card bound to DPDK; 2 to 8 times"},
	[DRIVER] = {"driver", "NAME", "DPDK's driver of devices (default: net_af_packet)"},
	[CONTROL] = {"control", "NAME",
		     "name of the bridge in this network namespace (default: tsn-bridge)"},
	[QUERY] = {"query", "WHAT",
		   "counters or addresses of a running bridge as JSON, or settings: apply those "
		   "of FILE"},
	{NULL, NULL, NULL},
};

static const struct help help = {
	.purpose = "Forward frames between ports by the gates, credit and priority of IEEE Std "
		   "802.1Q.\nPrints 'ready' once it forwards, and its counters as JSON when SIGTERM or "
		   "SIGINT\nends it. See tsn-bridge(8).",
	.usage = "  tsn-bridge --settings FILE --port DEVICE --port DEVICE... [OPTION]...\n"
		 "  tsn-bridge --query counters|addresses [--control NAME]\n"
		 "  tsn-bridge --query settings FILE [--control NAME]",
	.groups = {{"Options", known}},
	.example = "  echo 'rate_mbps 1000' >bridge.settings\n"
		   "  tsn-bridge --settings bridge.settings --port eth1 --port eth2 &\n"
		   "  tsn-bridge --query counters",
};

static struct options parse(int argc, char **argv)
{
	struct options options = {.driver = "net_af_packet", .control = "tsn-bridge"};
	int option;

	while ((option = next_option(argc, argv, known, &help, 1)) != -1)
		switch (option) {
		case SETTINGS: options.settings = optarg; break;
		case DRIVER: options.driver = optarg; break;
		case CONTROL: options.control = optarg; break;
		case QUERY: options.query = optarg; break;
		case PORT:
			if (options.port_count == MOST_PORTS)
				die("there are at most %d ports", MOST_PORTS);
			options.ports[options.port_count++] = optarg;
			break;
		}
	if (!options.query && (optind < argc || !options.settings || options.port_count < 2))
		die("--settings and at least two --port are needed; see tsn-bridge --help");
	return options;
}

static void prepare(struct bridge *bridge, const struct options *options)
{
	settings_load(options->settings, &bridge->settings);
	bridge->driver = options->driver;
	bridge->port_count = options->port_count;
	bridge->together = !bridge->settings.receiver_each && bridge->settings.threads != 2;
	if (!bridge->settings.receiver_each && bridge->settings.threads == 0)
		bridge->together = count_processors() < 3;
	bridge->longest_bytes = bridge->settings.common.longest_bytes;
	for (int place = 0; place < options->port_count; place++) {
		struct port *port = &bridge->ports[place];
		snprintf(port->name, sizeof port->name, "%s", options->ports[place]);
		int64_t longest = settings_of_port(&bridge->settings, port->name)->longest_bytes;
		if (longest > bridge->longest_bytes)
			bridge->longest_bytes = longest;
	}
	if (bridge->longest_bytes > LONGEST_FRAME)
		die("longest_bytes is at most %d", LONGEST_FRAME);
	bridge->frame_room = 2048;
	while (bridge->frame_room < bridge->longest_bytes + 256)
		bridge->frame_room *= 2;
	bridge->epoch_ns = (int64_t)(clock_ns(CLOCK_TAI) / SECOND_NS * SECOND_NS);
}

static void end(int signal)
{
	(void)signal;
	atomic_store(&the_bridge.ending, true);
}

int main(int argc, char **argv)
{
	struct bridge *bridge = &the_bridge;
	struct options options = parse(argc, argv);

	if (options.query)
		return control_query(options.control, options.query, argv[optind]);
	prepare(bridge, &options);
	/* First of all, so that a second bridge of the same name stops before it touches a port. */
	if (!control_open(options.control))
		die("a bridge named %s already runs in this network namespace", options.control);
	start_dpdk(bridge);
	signal(SIGTERM, end);
	signal(SIGINT, end);
	open_ports(bridge);
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
