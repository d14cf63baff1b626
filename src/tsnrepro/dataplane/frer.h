/* SPDX-License-Identifier: MIT
 *
 * What the eBPF programs and the control program frerctl agree on.
 *
 * Map names stay below 16 bytes: the kernel cuts longer ones, and frerctl
 * finds the maps of a running switch by their names.
 */
#ifndef TSNREPRO_FRER_H
#define TSNREPRO_FRER_H

#define FRER_ETHERTYPE 0xF1C1 /* IEEE 802.1CB-2017, 7.8: R-TAG */
#define FRER_TAG_BYTES 6
#define FRER_SEQUENCE_SPACE 65536
#define FRER_MAX_PATHS 8
#define FRER_MAX_PORTS (1 + FRER_MAX_PATHS) /* port 0 faces the host */

/* The history is a ring of bits indexed by sequence number, so its size is a
 * power of two and at least the longest history a stream may ask for. */
#define FRER_HISTORY_BITS 2048
#define FRER_HISTORY_WORDS (FRER_HISTORY_BITS / 64)

enum frer_algorithm { FRER_VECTOR = 0, FRER_MATCH = 1 };

enum frer_counter { /* IEEE 802.1CB-2017, 10.4 (names without the prefix) */
	FRER_OUT_OF_ORDER,
	FRER_ROGUE,
	FRER_PASSED,
	FRER_DISCARDED,
	FRER_LOST,
	FRER_TAGLESS,
	FRER_RESETS,
	FRER_COUNTERS
};

/* Which frames count as the measured stream at every station. */
struct stream_filter {
	__u32 ip_protocol; /* 17 or 6; 0 counts nothing as the stream */
	__u32 port;	   /* destination port, host order */
	__u32 min_payload; /* bytes behind the UDP header: leaves out handshakes */
};

struct switch_config {
	__u32 frer; /* 0: control, the same frames untagged over the first path */
	__u32 algorithm;
	__u32 history_length;
	__u32 take_no_sequence;
	__u64 reset_ns;
	__u32 host_ifindex;
	__u32 paths;
	__u32 member_ifindex[FRER_MAX_PATHS];
	struct stream_filter stream;
};

struct generator {
	__u64 next;	   /* the next sequence number is next modulo 65536 */
	__u64 gso_refused; /* frames that stood for several: offloads were on */
};

struct station {
	__u64 frames;
	__u64 bytes;
	__u64 stream_frames;	/* unfragmented, or the first fragment */
	__u64 stream_fragments; /* every later fragment */
};

/* Stations of a switch: in and out of each port, then what recovery refused. */
#define STATION_IN(port) (2 * (port))
#define STATION_OUT(port) (2 * (port) + 1)
#define STATION_ELIMINATED (2 * FRER_MAX_PORTS)
#define STATION_ROGUE (2 * FRER_MAX_PORTS + 1)
#define STATION_TAGLESS (2 * FRER_MAX_PORTS + 2)
#define STATIONS (2 * FRER_MAX_PORTS + 3)

/* A dropped frame of the stream, by where the kernel let it go. */
struct drop_key {
	__u64 location; /* address of the kernel code, for /proc/kallsyms */
	__u32 reason;	/* enum skb_drop_reason of the running kernel */
	__u32 ifindex;	/* 0 where the frame had left its device */
	__u32 netns;	/* inode number of the network namespace, or 0 */
	__u32 later_fragment;
};

#endif
