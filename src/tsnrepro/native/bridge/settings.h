/* SPDX-License-Identifier: MIT
 *
 * Settings of a bridge and its ports, read from the text that tsn-bridge(8) describes.
 */
#ifndef TSNREPRO_BRIDGE_SETTINGS_H
#define TSNREPRO_BRIDGE_SETTINGS_H

#include "scheduler.h"

#include <stdio.h>

enum { MOST_PORTS = 8, NAME_BYTES = 16, MOST_CLASS_RULES = 64, MOST_STATIC = 256, ANY_VLAN = 4096 };

struct class_rule {
	uint16_t vlan; /* or ANY_VLAN */
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

/* Read settings. On failure `problem` is the first error, with its line. */
bool settings_read(FILE *file, struct bridge_settings *settings, char *problem, size_t room);

/* Read settings from a file, or end the program with a message. */
void settings_load(const char *path, struct bridge_settings *settings);

/* Return the settings of a port by name: its own, or the common ones. */
const struct scheduler_settings *settings_of_port(const struct bridge_settings *settings,
												  const char *name);

/* Return the class of a frame: of the first rule for its VLAN and PCP, else its PCP. */
int settings_class(const struct bridge_settings *settings, uint16_t vlan, uint8_t pcp);

#endif
