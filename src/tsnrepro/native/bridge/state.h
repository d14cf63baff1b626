/* SPDX-License-Identifier: MIT
 *
 * The state of the bridge, which its threads share, and its parts.
 */
#ifndef TSNREPRO_BRIDGE_STATE_H
#define TSNREPRO_BRIDGE_STATE_H

#include "../program.h"
#include "frames.h"
#include "settings.h"

#include <rte_mbuf.h>
#include <rte_ring.h>
#include <stdatomic.h>

/*
 * Where frames that came in at a port ended, or that they were handed on. received = runt +
 * oversized + bad_source + reserved + unswitched + copies handed on to ports - extra_copies.
 */
struct received {
	uint64_t frames, bytes, ptp, flooded, extra_copies;
	uint64_t runt;       /* it ends within its headers */
	uint64_t oversized;  /* longer than longest_bytes */
	uint64_t bad_source; /* a group address */
	uint64_t reserved;   /* for this bridge alone: 802.1Q, 8.6.3 */
	uint64_t unswitched; /* its destination is where it came from, or no other port is up */
};

/* Where copies that were to leave at a port ended, beside the counters of its queues. */
struct transmitted {
	uint64_t port_down;    /* removed from its queues when the port went down, or came after that */
	uint64_t refused;      /* by the device */
	uint64_t outside[CLASSES]; /* of those sent: handed over when the gate was closed again */
	uint64_t bytes;
};

struct port {
	char name[NAME_BYTES];
	uint16_t number;     /* of DPDK */
	int index;           /* of the kernel; 0: a card bound to DPDK */
	int socket;          /* of its driver, or -1 */
	int promiscuous;     /* a socket that keeps the device promiscuous, or -1 */
	atomic_bool up, forget;
	struct received received;
	struct transmitted transmitted;
	atomic_uint_least64_t handoff_full; /* copies lost because sending lagged behind receiving */
	uint64_t kernel_dropped; /* before the bridge could read them */
	struct rte_ring *handoff;
	struct scheduler scheduler;
	_Atomic(struct scheduler *) next_scheduler; /* new settings, for the sending thread to apply */
};

struct bridge {
	struct bridge_settings settings;
	const char *driver;
	struct port ports[MOST_PORTS];
	int port_count;
	int64_t longest_bytes;
	int frame_room; /* bytes of memory for a frame */
	int64_t epoch_ns;
	struct rte_mempool *pool;
	atomic_bool ending;
	bool together; /* one thread receives and sends */
};

/* Return the number of Rx threads: one, or one per port. */
static inline int receivers(const struct bridge *bridge)
{
	return bridge->settings.receiver_each ? bridge->port_count : 1;
}

/* Return the number of Rx and Tx threads: sending has one of its own unless one thread does both. */
static inline int workers(const struct bridge *bridge)
{
	return receivers(bridge) + (bridge->together ? 0 : 1);
}

/* Return the time of the gates' clock, in picoseconds of the schedulers. */
static inline int64_t now_ps(const struct bridge *bridge)
{
	return ((int64_t)clock_ns(CLOCK_TAI) - bridge->epoch_ns) * 1000;
}

/* Return the time by which addresses age, in seconds. */
static inline int64_t now_s(void)
{
	return (int64_t)(clock_ns(CLOCK_MONOTONIC_COARSE) / SECOND_NS);
}

/* table.c: at which port addresses are, learned or static */
enum { NOWHERE = -1 };
bool table_open(void);
void table_pin(const uint8_t *mac, uint16_t vlan, int port);
void table_learn(const uint8_t *mac, uint16_t vlan, int port, int64_t now_s);
int table_find(const uint8_t *mac, uint16_t vlan);
void table_age(int64_t now_s, int64_t ageing_s);
void table_forget(int port);  /* what was learned at it */
uint64_t table_full(void);    /* addresses that were not learned for lack of room */
void table_print(FILE *file, const struct bridge *bridge, int64_t now_s);

/* dpdk.c: starting DPDK for the ports of the bridge */
enum { POOL_FRAMES = 16384 };
bool is_card(const char *name); /* a PCI address, not a device */
int count_processors(void);
void start_dpdk(struct bridge *bridge);

/* ports.c: devices of the ports */
void open_ports(struct bridge *bridge);
void watch_ports(struct bridge *bridge); /* note which are up */
void close_ports(struct bridge *bridge);

/* receive.c: serve ports from first to before last once; return whether frames arrived */
bool receive_turn(struct bridge *bridge, int first, int last);

/* transmit.c: serve all ports once; return whether frames left, and when more may, or NEVER */
bool transmit_turn(struct bridge *bridge, int64_t *look_again);

/* threads.c: they end once bridge->ending is set */
void start_threads(struct bridge *bridge);

/* control.c: the local socket */
bool control_open(const char *name);
void control_serve(struct bridge *bridge, int timeout_ms); /* at most one request */
int control_query(const char *name, const char *request, const char *path); /* path: or NULL */
void print_counters(FILE *file, struct bridge *bridge);

#endif
