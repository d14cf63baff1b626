/* SPDX-License-Identifier: MIT
 *
 * Loading eBPF objects; finding, reading and writing the maps of what runs on a port.
 */
#ifndef TSNREPRO_FRERCTL_MAPS_H
#define TSNREPRO_FRERCTL_MAPS_H

#include <errno.h>
#include <linux/types.h>
#include <net/if.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <bpf/bpf.h>
#include <bpf/libbpf.h>

#include "../program.h"
#include "frer.h"

#define FILTER_HANDLE 1
#ifndef FILTER_PRIORITY /* a test attaches a switch behind the counters of another's ports */
#define FILTER_PRIORITY 1
#endif

struct recovery_value { /* layout of struct recovery in recovery.bpf.h */
	__u32 lock;
	__u32 take_any;
	__u32 recov_seq_num;
	__u32 unused;
	__u64 reloaded_ns;
	__u64 counters[FRER_COUNTERS];
	__u64 history[FRER_HISTORY_WORDS];
};

/* Map descriptors of a switch, listener or station; -1: it has no such map. */
struct maps {
	int config, ports, stations, generator, recovery, individual, faults, latent;
};

/* Return the index of a network device, or end the program. */
unsigned int ifindex_of(const char *name);

/* Load an eBPF object that lies beside this program, or end the program. */
struct bpf_object *load_object(const char *name);
int map_fd(struct bpf_object *object, const char *name);

/* Find the maps of what runs on a device; find_switch refuses one that only counts. */
struct maps find_maps(const char *device);
struct maps find_switch(const char *device);

void read_value(int fd, __u32 key, void *value, const char *what);
void write_value(int fd, __u32 key, const void *value, const char *what);
struct switch_config read_config(int fd);
void write_config(int config_fd, int ports_fd, const struct switch_config *config);

/* Return whether the reset timer has expired since the last frame. */
bool timer_expired(const struct recovery_value *state, const struct recovery_config *config);

/* Initialize the recovery functions of the first streams; `old` is the configuration until now. */
void begin_recovery(int fd, __u32 streams, bool individual, const struct switch_config *old);
void begin_generator(int fd, bool keep_numbered);

#endif
