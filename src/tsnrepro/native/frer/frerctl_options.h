/* SPDX-License-Identifier: MIT
 *
 * The command line of frerctl.
 */
#ifndef TSNREPRO_FRERCTL_OPTIONS_H
#define TSNREPRO_FRERCTL_OPTIONS_H

#include <linux/types.h>
#include <stdbool.h>

#include "../program.h"
#include "frer.h"

struct detection { /* IEEE 802.1CB-2017, 10.4.1.12 */
	__u64 period_ms;
	__u64 reset_ms;
	__u64 difference;
	__u32 paths;
};

/* Refuse all options and operands but --help and --version. */
void no_options(int argc, char **argv);

void read_one_stream(int argc, char **argv, struct switch_config *config);
void read_streams(int argc, char **argv, struct switch_config *config);
void read_fault(int argc, char **argv, struct fault *fault);
/* Return whether the generator of a stream is to be stuck. */
bool read_stuck(int argc, char **argv, __u32 *stream);
void read_detection(int argc, char **argv, struct detection *detection);

/* Parse udp:PORT, tcp:PORT or a range of ports, PORT-PORT. */
void read_filter(struct stream_filter *filter, const char *text);

#endif
