/* SPDX-License-Identifier: MIT
 *
 * Finding the maps of what runs on a port, reading and writing them.
 */
#include "frerctl.h"

#define MAX_MAPS 16

void read_value(int fd, __u32 key, void *value, const char *what)
{
	if (bpf_map_lookup_elem(fd, &key, value))
		die("cannot read %s: %s", what, strerror(errno));
}

void write_value(int fd, __u32 key, const void *value, const char *what)
{
	if (bpf_map_update_elem(fd, &key, value, BPF_ANY))
		die("cannot write %s: %s", what, strerror(errno));
}

struct switch_config get_config(int fd)
{
	struct switch_config config;

	read_value(fd, 0, &config, "the configuration");
	return config;
}

static void put_ports(int fd, const struct switch_config *config)
{
	static struct port_table tables[PORT_TABLES];
	__u32 index, port, table;

	memset(tables, 0, sizeof(tables));
	for (index = 0; index < config->streams; index++) {
		const struct stream_filter *filter = &config->stream[index].filter;

		table = filter->ip_protocol == 6 ? PORTS_TCP : PORTS_UDP;
		for (port = filter->first_port; filter->ip_protocol && port <= filter->last_port;
		     port++)
			tables[table].stream[port] = 1 + index;
	}
	for (table = 0; table < PORT_TABLES; table++)
		write_value(fd, table, &tables[table], "the streams' ports");
}

void put_config(int config_fd, int ports_fd, const struct switch_config *config)
{
	write_value(config_fd, 0, config, "the configuration");
	put_ports(ports_fd, config);
}

/* The timer is looked at when a frame comes; between frames it is looked at here,
 * so that an expiry shows without waiting for traffic. */
bool timer_expired(const struct recovery_value *state, const struct recovery_config *config)
{
	return state->reloaded_ns && config->reset_ns &&
	       clock_ns(CLOCK_MONOTONIC) >= state->reloaded_ns + config->reset_ns;
}

/* BEGIN of IEEE 802.1CB-2017, 7.4.3.3: take any sequence number first. Counters go on; this is a
 * reset too, after one by the timer that was due by the configuration that ran until now. */
void begin_recovery(int fd, __u32 streams, bool individual, const struct switch_config *ran)
{
	__u32 key, functions = individual ? FRER_MAX_PATHS : 1;
	struct recovery_value old, state;
	const struct stream_config *of;

	for (key = 0; key < streams * functions; key++) {
		of = &ran->stream[key / functions];
		read_value(fd, key, &old, "the recovery function");
		memset(&state, 0, sizeof(state));
		state.take_any = 1;
		state.recov_seq_num = FRER_SEQUENCE_SPACE - 1;
		memcpy(state.counters, old.counters, sizeof(state.counters));
		state.counters[FRER_RESETS] +=
		    1 + timer_expired(&old, individual ? &of->individual_recovery : &of->recovery);
		write_value(fd, key, &state, "the recovery function");
	}
}

void begin_generator(int fd, bool keep_numbered)
{
	struct generator state, old;
	__u32 key;

	for (key = 0; key < FRER_MAX_STREAMS; key++) {
		read_value(fd, key, &old, "the sequence generator");
		memset(&state, 0, sizeof(state));
		state.gso_refused = old.gso_refused;
		state.numbered = keep_numbered ? old.numbered : 0;
		write_value(fd, key, &state, "the sequence generator");
	}
}

static int program_at(unsigned int ifindex)
{
	LIBBPF_OPTS(bpf_tc_hook, hook, .ifindex = ifindex,
		    .attach_point = BPF_TC_INGRESS);
	LIBBPF_OPTS(bpf_tc_opts, filter, .handle = FILTER_HANDLE, .priority = FILTER_PRIORITY);
	int fd;

	if (bpf_tc_query(&hook, &filter))
		return -1;
	fd = bpf_prog_get_fd_by_id(filter.prog_id);
	if (fd < 0)
		die("cannot open the program on device %u: %s", ifindex, strerror(errno));
	return fd;
}

static int *place_of(struct running *found, const char *map)
{
	struct {
		const char *name;
		int *place;
	} places[] = {
		{"frer_config", &found->config},	 {"stream_ports", &found->ports},
		{"stations", &found->stations},		 {"frer_generator", &found->generator},
		{"frer_recovery", &found->recovery},	 {"frer_individual", &found->individual},
		{"frer_faults", &found->faults},	 {"frer_latent", &found->latent},
	};
	size_t index;

	for (index = 0; index < sizeof(places) / sizeof(*places); index++)
		if (!strcmp(places[index].name, map))
			return places[index].place;
	return NULL;
}

static void keep_map(struct running *found, __u32 id)
{
	struct bpf_map_info info = {};
	__u32 length = sizeof(info);
	int fd = bpf_map_get_fd_by_id(id), *place;

	if (fd < 0 || bpf_obj_get_info_by_fd(fd, &info, &length))
		die("cannot read map %u: %s", id, strerror(errno));
	place = place_of(found, info.name);
	if (place)
		*place = fd;
	else
		close(fd);
}

static void add_maps_of(struct running *found, int program)
{
	__u32 ids[MAX_MAPS], length, index;
	struct bpf_prog_info info = {.nr_map_ids = MAX_MAPS, .map_ids = (__u64)(uintptr_t)ids};

	length = sizeof(info);
	if (bpf_obj_get_info_by_fd(program, &info, &length))
		die("cannot read the program's maps: %s", strerror(errno));
	for (index = 0; index < info.nr_map_ids && index < MAX_MAPS; index++)
		keep_map(found, ids[index]);
}

/* The host port's program has no recovery map; a member port's has. The sequence
 * generators hang on the host port alone. */
struct running find_running(const char *device)
{
	struct running found = {-1, -1, -1, -1, -1, -1, -1, -1};
	struct switch_config config;
	int program = program_at(ifindex_of(device));

	if (program < 0)
		die("no switch and no station runs on '%s'", device);
	add_maps_of(&found, program);
	if (found.config < 0 || found.stations < 0)
		die("what runs on '%s' is not a switch or station of ours", device);
	config = get_config(found.config);
	if (!config.paths)
		return found;
	program = program_at(config.member_ifindex[0]);
	if (program < 0)
		die("the member port of '%s' has lost its program", device);
	add_maps_of(&found, program);
	if (config.host_ifindex != ifindex_of(device))
		add_maps_of(&found, program_at(config.host_ifindex));
	return found;
}

struct running find_switch(const char *device)
{
	struct running found = find_running(device);

	if (found.recovery < 0)
		die("what runs on '%s' is a station, not a switch", device);
	return found;
}
