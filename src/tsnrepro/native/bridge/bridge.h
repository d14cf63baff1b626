/* SPDX-License-Identifier: MIT
 *
 * What the threads of the bridge share.
 */
#ifndef TSNREPRO_BRIDGE_BRIDGE_H
#define TSNREPRO_BRIDGE_BRIDGE_H

#include "frames.h"
#include "settings.h"

#include <rte_mbuf.h>
#include <rte_ring.h>
#include <stdatomic.h>

enum { SECOND_NS = 1000000000, HANDOFF_FRAMES = 4096 };

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

/* What became of the copies that were to leave at a port, beside the counts of its queues. */
struct transmitted {
	uint64_t handoff_full; /* sending lagged behind receiving */
	uint64_t port_down;    /* taken out of its queues when the port went down, or came after that */
	uint64_t refused;      /* by the device */
	uint64_t outside[CLASSES]; /* of those sent: handed over when the gate was closed again */
	uint64_t bytes;
};

struct port {
	char name[NAME_BYTES];
	uint16_t number; /* of DPDK */
	int index;       /* of the kernel */
	int socket;      /* of its driver */
	int hearing;     /* a socket that has the device hear all frames, or -1 */
	atomic_bool up, forget;
	struct received received;
	struct transmitted transmitted;
	atomic_uint_least64_t handoff_full;
	uint64_t kernel_dropped; /* before the bridge could read them */
	struct rte_ring *handoff;
	struct scheduler scheduler;
	_Atomic(struct scheduler *) next_scheduler; /* to be taken over by who sends */
};

struct bridge {
	struct bridge_settings settings;
	struct port ports[MOST_PORTS];
	int port_count;
	int64_t longest_bytes;
	int64_t epoch_ns;
	struct rte_mempool *pool;
	atomic_bool ending;
	bool together; /* one thread receives and sends */
	uint64_t table_full, sleeps;
};

extern struct bridge the_bridge;

static inline int64_t clock_ns(clockid_t clock)
{
	struct timespec now;
	clock_gettime(clock, &now);
	return now.tv_sec * (int64_t)SECOND_NS + now.tv_nsec;
}

/* Return the time of the gates' clock, in picoseconds of the schedulers. */
static inline int64_t now_ps(const struct bridge *bridge)
{
	return (clock_ns(CLOCK_TAI) - bridge->epoch_ns) * 1000;
}

/* table.c: where addresses are */
enum { NOWHERE = -1 };
bool table_open(void);
void table_pin(const uint8_t *mac, uint16_t vlan, int port);
void table_learn(const uint8_t *mac, uint16_t vlan, int port, int64_t now_s);
int table_find(const uint8_t *mac, uint16_t vlan);
void table_age(int64_t now_s, int64_t ageing_s);
void table_forget(int port); /* what was learned at it */
void table_print(FILE *file, int64_t now_s);

/* receive.c, transmit.c: one turn; false: there was nothing to do */
bool receive_turn(struct bridge *bridge, int first, int last);
bool transmit_turn(struct bridge *bridge, int64_t *look_again);

/* control.c */
bool control_open(const char *name);
void control_serve(struct bridge *bridge, int timeout_ms);
int control_ask(const char *name, int count, char **words);
void print_counters(FILE *file, struct bridge *bridge);

#endif
