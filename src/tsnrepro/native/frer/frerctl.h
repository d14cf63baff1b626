/* SPDX-License-Identifier: MIT
 *
 * What the parts of frerctl share.
 */
#ifndef TSNREPRO_FRERCTL_H
#define TSNREPRO_FRERCTL_H

#include <errno.h>
#include <inttypes.h>
#include <linux/types.h>
#include <net/if.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <bpf/bpf.h>
#include <bpf/libbpf.h>

#include "frer.h"

#define FILTER_HANDLE 1
#ifndef FILTER_PRIORITY /* a test puts a switch behind the counting of another's ports */
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

/* Map descriptors of what runs; -1: has none. */
struct running {
	int config, ports, stations, generator, recovery, individual, faults, latent;
};

/* frerctl.c */
void die(const char *format, ...) __attribute__((noreturn, format(printf, 1, 2)));
unsigned int ifindex_of(const char *name);
unsigned long number(const char *text, const char *what, unsigned long low, unsigned long high);
bool on_or_off(const char *text, const char *what);
__u64 clock_ns(clockid_t clock);

/* frerctl_options.c */
void set_stream(struct stream_filter *stream, const char *text);
void read_one_stream(int argc, char **argv, struct switch_config *config);
void read_streams(int argc, char **argv, struct switch_config *config);

/* frerctl_setup.c */
struct bpf_object *load_object(const char *name);
int map_fd(struct bpf_object *object, const char *name);
void command_switch(char *ports, int argc, char **argv);
void command_station(const char *device, int argc, char **argv);
void command_listener(const char *device, int argc, char **argv);

/* frerctl_running.c */
struct running find_running(const char *device);
struct running find_switch(const char *device);
struct switch_config get_config(int fd);
void put_config(int config_fd, int ports_fd, const struct switch_config *config);
bool timer_expired(const struct recovery_value *state, const struct recovery_config *config);
void begin_recovery(int fd, __u32 streams, bool individual, const struct switch_config *ran);
void begin_generator(int fd, bool keep_numbered);
void read_value(int fd, __u32 key, void *value, const char *what);
void write_value(int fd, __u32 key, const void *value, const char *what);

/* frerctl_counters.c, frerctl_drops.c, frerctl_latent.c */
void command_counters(const char *device);
void command_drops(int argc, char **argv);
void command_latent(const char *device, int argc, char **argv);

#endif
