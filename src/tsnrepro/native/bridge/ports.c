/* SPDX-License-Identifier: MIT
 *
 * Ports: opening, watching and closing their devices.
 */
#include "state.h"

#include <dirent.h>
#include <errno.h>
#include <net/if.h>
#include <pthread.h>
#include <rte_errno.h>
#include <rte_ethdev.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <linux/if_packet.h>

enum { POOL_CACHE = 256, DESCRIPTORS = 512, HANDOFF_FRAMES = 4096 };

/* --- link state --------------------------------------------------------------------------- */

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

void watch_ports(struct bridge *bridge)
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

/* --- opening ------------------------------------------------------------------------------ */

static void check(int status, const char *what, const char *port)
{
	if (status < 0)
		die("port %s: %s: %s", port, what, rte_strerror(-status));
}

/* Find the socket by which the driver reads a device, to wait for frames and count drops. */
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
 * Make a device promiscuous for as long as this program has a socket for it. What a driver sets on
 * the device itself would outlast a bridge that is killed.
 */
static void make_promiscuous(struct port *port)
{
	struct packet_mreq wanted = {.mr_ifindex = port->index, .mr_type = PACKET_MR_PROMISC};

	/* Of no protocol, so that it receives nothing. */
	port->promiscuous = socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC, 0);
	if (port->promiscuous < 0 || setsockopt(port->promiscuous, SOL_PACKET, PACKET_ADD_MEMBERSHIP,
											&wanted, sizeof wanted))
		die("port %s: cannot make it promiscuous: %s", port->name, strerror(errno));
}

static void open_port(struct bridge *bridge, int place)
{
	struct port *port = &bridge->ports[place];
	const char *name = port->name;
	struct rte_eth_conf configuration = {0};
	char vdev[64], ring[32];

	snprintf(vdev, sizeof vdev, "%s%d", bridge->driver, place);
	check(rte_eth_dev_get_port_by_name(is_card(name) ? name : vdev, &port->number),
		  "the driver does not know it", name);
	check(rte_eth_dev_configure(port->number, 1, 1, &configuration), "configuring", name);
	check(rte_eth_rx_queue_setup(port->number, 0, DESCRIPTORS, SOCKET_ID_ANY, NULL, bridge->pool),
		  "its receive queue", name);
	check(rte_eth_tx_queue_setup(port->number, 0, DESCRIPTORS, SOCKET_ID_ANY, NULL),
		  "its transmit queue", name);
	check(rte_eth_dev_start(port->number), "starting", name);
	port->index = (int)if_nametoindex(name);
	port->promiscuous = -1;
	if (port->index)
		make_promiscuous(port);
	else
		rte_eth_promiscuous_enable(port->number);
	port->socket = port->index ? driver_socket(port->index) : -1;
	snprintf(ring, sizeof ring, "handoff%d", place);
	unsigned alone = bridge->settings.receiver_each ? 0 : RING_F_SP_ENQ;
	port->handoff = rte_ring_create(ring, HANDOFF_FRAMES, SOCKET_ID_ANY, RING_F_SC_DEQ | alone);
	if (!port->handoff || !scheduler_open(&port->scheduler,
										  settings_of_port(&bridge->settings, name),
										  bridge->epoch_ns))
		die("port %s: no memory for its queues", name);
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
			die("a static address names %s, which is none of the ports", address->port);
		table_pin(address->mac, address->vlan, port);
	}
}

void open_ports(struct bridge *bridge)
{
	bridge->pool = rte_pktmbuf_pool_create("frames", POOL_FRAMES, POOL_CACHE, 0,
										   (uint16_t)(bridge->frame_room + RTE_PKTMBUF_HEADROOM),
										   SOCKET_ID_ANY);
	if (!bridge->pool || !table_open())
		die("no memory for frames and addresses");
	for (int place = 0; place < bridge->port_count; place++)
		open_port(bridge, place);
	pin_addresses(bridge);
	watch_ports(bridge);
}

/* --- closing ------------------------------------------------------------------------------ */

static void *close_driver(void *port)
{
	uint16_t number = ((struct port *)port)->number;

	rte_eth_dev_stop(number);
	rte_eth_dev_close(number);
	return NULL;
}

static void *close_socket(void *port)
{
	close(((struct port *)port)->promiscuous);
	return NULL;
}

/*
 * Close all sockets of ports in parallel. The kernel releases one only when no processor can be using
 * it any more, which takes tens of milliseconds each, in sequence if the process just exits. A socket
 * that no thread can be started for is closed by that exit.
 */
void close_ports(struct bridge *bridge)
{
	pthread_t threads[2 * MOST_PORTS];
	int started = 0;

	for (int number = 0; number < bridge->port_count; number++) {
		struct port *port = &bridge->ports[number];
		if (pthread_create(&threads[started], NULL, close_driver, port) == 0)
			started++;
		if (port->promiscuous >= 0 && pthread_create(&threads[started], NULL, close_socket, port) == 0)
			started++;
	}
	while (started > 0)
		pthread_join(threads[--started], NULL);
}
