/* SPDX-License-Identifier: MIT
 *
 * Settings of a bridge and its ports, read from a text of lines: a word and its values. A line
 * before the first `port` line holds for every port; after it, for that port. `#` begins a comment.
 *
 *   rate_mbps 1000                  the rate of the line behind a port
 *   queue_bytes 262144              of each of a port's queues
 *   longest_bytes 1522              the longest frame, with tag and FCS
 *   ahead_us 0                      how far ahead of its time on the line a frame is handed over
 *   selection standard              or by-kind
 *   scheduled 5 ...                 classes that go by their windows (selection by-kind)
 *   gates 0 1000000                 base time and cycle, ns
 *   guard frame                     or longest, none, or nanoseconds
 *   gate 0x20 500000                an entry: open classes (bit n is class n), ns
 *   shape 5 30                      class, idle slope in Mb/s; then send slope in Mb/s, hi and lo
 *                                   credit in bits, each of them if it is not the standard's
 *
 * Of the bridge as a whole:
 *
 *   class 10 5 6                    VLAN ID (* for any), PCP, class; without, the class is the PCP
 *   address 02:00:00:00:00:01 10 p1 a static address: MAC, VLAN ID, port
 *   ageing_s 300                    after which a learned address is forgotten
 *   burst 32                        frames taken from a port before it is the next one's turn
 *   sleep_us 50                     at most, while nothing arrives; 0 polls without rest
 *   realtime no                     or yes: under SCHED_FIFO, which only one that sleeps may be
 *   receivers one                   or each: a processor for each port
 *   threads 1                       or 2: one receives, one sends; or 0: as processors allow
 */
#ifndef TSNREPRO_BRIDGE_SETTINGS_H
#define TSNREPRO_BRIDGE_SETTINGS_H

#include "scheduler.h"

#include <stdio.h>

enum { MOST_PORTS = 8, NAME_BYTES = 16, MOST_CLASS_RULES = 64, MOST_STATIC = 256, ANY_VLAN = 4096 };

struct class_rule {
	uint16_t vlan; /* ANY_VLAN: in all */
	uint8_t pcp, class;
};

struct static_address {
	uint8_t mac[6];
	uint16_t vlan;
	char port[NAME_BYTES];
};

struct bridge_settings {
	struct scheduler_settings common;
	int port_count;
	struct {
		char name[NAME_BYTES];
		struct scheduler_settings scheduler;
	} ports[MOST_PORTS];
	int rule_count;
	struct class_rule rules[MOST_CLASS_RULES];
	int static_count;
	struct static_address statics[MOST_STATIC];
	int64_t ageing_s, burst, sleep_us, threads;
	bool receiver_each, realtime;
};

/* Read settings. On failure the first thing wrong is in `problem`, with its line. */
bool settings_read(FILE *file, struct bridge_settings *settings, char *problem, size_t room);

/* Return the settings of a port by name: its own, or those of every port. */
const struct scheduler_settings *settings_of_port(const struct bridge_settings *settings,
												  const char *name);

/* Return the class of a frame: the first rule that names its VLAN and PCP, else its PCP. */
int settings_class(const struct bridge_settings *settings, uint16_t vlan, uint8_t pcp);

#endif
