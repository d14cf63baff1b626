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
#define FRER_MAX_STREAMS 16
#define FRER_BEST_EFFORT FRER_MAX_STREAMS /* index of frames of no stream */

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

/* Which frames count as a stream's at a station. */
struct stream_filter {
	__u32 ip_protocol; /* 17 or 6; 0 counts nothing as the stream's */
	__u32 first_port;  /* destination ports, host order */
	__u32 last_port;
	__u32 min_payload; /* bytes after the UDP header: excludes handshakes */
};

struct recovery_config { /* IEEE 802.1CB-2017, 10.4.1 */
	__u32 algorithm;
	__u32 history_length;
	__u64 reset_ns;
};

struct stream_config {
	__u32 frer; /* 0: control, the same frames untagged over the first path */
	__u32 take_no_sequence;
	__u32 individual; /* 1: each member path has a recovery function ahead of the compound one */
	__u32 leave_tags; /* 1: the host eliminates, so frames keep their tags */
	struct recovery_config recovery;
	struct recovery_config individual_recovery;
	struct stream_filter filter;
};

struct switch_config {
	__u32 host_ifindex;
	__u32 paths;
	__u32 member_ifindex[FRER_MAX_PATHS];
	__u32 streams;
	/* 1: every frame belongs to stream 0, and its filter only selects which are counted as it.
	 * 0: a frame that matches no filter is best effort. */
	__u32 one_stream;
	struct stream_config stream[FRER_MAX_STREAMS];
};

/* One for each transport protocol: the stream of each port plus one, 0 for none. */
struct port_table {
	__u8 stream[65536];
};
enum { PORTS_UDP, PORTS_TCP, PORT_TABLES };

struct generator {
	__u64 next;	   /* the next sequence number is next modulo 65536 */
	__u64 numbered;	   /* frames numbered so far */
	__u64 gso_refused; /* frames of several segments: offloads were on */
	__u32 stuck;	   /* a fault: the number no longer changes */
	__u32 unused;
};

/* What a faulty link does to a frame, if a random 32-bit number is below the value. */
struct fault {
	__u64 drop_below;      /* on arrival */
	__u64 duplicate_below; /* on departure */
};

/* IEEE 802.1CB-2017, 7.4.4; kept by `frerctl latent`, which compares once a period. */
struct latent {
	__u64 tests;
	__u64 alarms;
	__u64 resets;
	__s64 base;	  /* CurBaseDifference */
	__u64 difference; /* at the last test, without its sign */
	__u64 tested_ns;  /* CLOCK_TAI of the last test */
	__u32 error;	  /* the last test was an alarm */
	__u32 unused;
};

struct station {
	__u64 frames;
	__u64 bytes;
	__u64 stream_frames;	/* unfragmented, or the first fragment */
	__u64 stream_fragments; /* every later fragment */
};

/* Stations of a switch: in and out of each port, what a faulty link lost and duplicated there, then
 * what recovery discarded. */
#define STATION_IN(port) (4 * (port))
#define STATION_OUT(port) (4 * (port) + 1)
#define STATION_FAULT_DROPPED(port) (4 * (port) + 2)
#define STATION_FAULT_COPIED(port) (4 * (port) + 3)
#define STATION_ELIMINATED (4 * FRER_MAX_PORTS)
#define STATION_ROGUE (4 * FRER_MAX_PORTS + 1)
#define STATION_TAGLESS (4 * FRER_MAX_PORTS + 2)
#define STATION_UNIDENTIFIED (4 * FRER_MAX_PORTS + 3) /* tagged, but of no stream */
#define STATIONS (4 * FRER_MAX_PORTS + 4)

/* Each stream has a set of stations, and best effort the last one. A frame counts in one set. */
#define STATION_SETS (FRER_MAX_STREAMS + 1)

/* A dropped frame of a stream, by where the kernel dropped it. */
struct drop_key {
	__u64 location; /* address of the kernel code, for /proc/kallsyms */
	__u32 reason;	/* enum skb_drop_reason of the running kernel */
	__u32 ifindex;	/* 0 where the frame had left its device */
	__u32 netns;	/* inode number of the network namespace, or 0 */
	__u16 later_fragment; /* its stream is not known where there are several */
	__u16 stream;
};

#endif
