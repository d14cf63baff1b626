/* SPDX-License-Identifier: MIT
 *
 * See frerctl_maps.h.
 */
#include "frerctl_maps.h"

#include <libgen.h>

#define MAX_MAPS 16

unsigned int ifindex_of(const char *name)
{
	unsigned int ifindex = if_nametoindex(name);

	if (!ifindex)
		die("no network device '%s' in this namespace", name);
	return ifindex;
}

struct bpf_object *load_object(const char *name)
{
	char self[4096], path[8192];
	ssize_t length = readlink("/proc/self/exe", self, sizeof(self) - 1);
	struct bpf_object *object;

	if (length < 0)
		die("cannot read /proc/self/exe: %s", strerror(errno));
	self[length] = '\0';
	snprintf(path, sizeof(path), "%s/%s", dirname(self), name);
	object = bpf_object__open_file(path, NULL);
	if (!object)
		die("cannot open %s: %s", path, strerror(errno));
	if (bpf_object__load(object))
		die("the kernel refused %s: %s (root, BTF and CONFIG_BPF_SYSCALL are needed)",
		    path, strerror(errno));
	return object;
}

int map_fd(struct bpf_object *object, const char *name)
{
	int fd = bpf_object__find_map_fd_by_name(object, name);

	if (fd < 0)
		die("no map '%s' in the loaded object", name);
	return fd;
}

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

struct switch_config read_config(int fd)
{
	struct switch_config config;

	read_value(fd, 0, &config, "the configuration");
	return config;
}

static void write_ports(int fd, const struct switch_config *config)
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

void write_config(int config_fd, int ports_fd, const struct switch_config *config)
{
	write_value(config_fd, 0, config, "the configuration");
	write_ports(ports_fd, config);
}

/* The eBPF programs check the timer when a frame arrives; between frames it is checked here, so
 * that an expiry shows without traffic. */
bool timer_expired(const struct recovery_value *state, const struct recovery_config *config)
{
	return state->reloaded_ns && config->reset_ns &&
	       clock_ns(CLOCK_MONOTONIC) >= state->reloaded_ns + config->reset_ns;
}

/* BEGIN of IEEE 802.1CB-2017, 7.4.3.3: accept any sequence number next. Counters continue; this
 * counts as a reset, and so does an expiry of the timer that no frame has shown yet. */
void begin_recovery(int fd, __u32 streams, bool individual, const struct switch_config *old)
{
	__u32 key, functions = individual ? FRER_MAX_PATHS : 1;
	struct recovery_value before, state;
	const struct stream_config *stream;

	for (key = 0; key < streams * functions; key++) {
		stream = &old->stream[key / functions];
		read_value(fd, key, &before, "the recovery function");
		memset(&state, 0, sizeof(state));
		state.take_any = 1;
		state.recov_seq_num = FRER_SEQUENCE_SPACE - 1;
		memcpy(state.counters, before.counters, sizeof(state.counters));
		state.counters[FRER_RESETS] +=
		    1 + timer_expired(&before, individual ? &stream->individual_recovery
							: &stream->recovery);
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

static int *descriptor_of(struct maps *maps, const char *map)
{
	struct {
		const char *name;
		int *descriptor;
	} known[] = {
		{"frer_config", &maps->config},	    {"stream_ports", &maps->ports},
		{"stations", &maps->stations},	    {"frer_generator", &maps->generator},
		{"frer_recovery", &maps->recovery}, {"frer_individual", &maps->individual},
		{"frer_faults", &maps->faults},	    {"frer_latent", &maps->latent},
	};
	size_t index;

	for (index = 0; index < sizeof(known) / sizeof(*known); index++)
		if (!strcmp(known[index].name, map))
			return known[index].descriptor;
	return NULL;
}

static void keep_map(struct maps *maps, __u32 id)
{
	struct bpf_map_info info = {};
	__u32 length = sizeof(info);
	int fd = bpf_map_get_fd_by_id(id), *descriptor;

	if (fd < 0 || bpf_obj_get_info_by_fd(fd, &info, &length))
		die("cannot read map %u: %s", id, strerror(errno));
	descriptor = descriptor_of(maps, info.name);
	if (descriptor)
		*descriptor = fd;
	else
		close(fd);
}

static void add_maps_of(struct maps *maps, int program)
{
	__u32 ids[MAX_MAPS], length, index;
	struct bpf_prog_info info = {.nr_map_ids = MAX_MAPS, .map_ids = (__u64)(uintptr_t)ids};

	length = sizeof(info);
	if (bpf_obj_get_info_by_fd(program, &info, &length))
		die("cannot read the program's maps: %s", strerror(errno));
	for (index = 0; index < info.nr_map_ids && index < MAX_MAPS; index++)
		keep_map(maps, ids[index]);
}

/* The host port's program has no recovery map; a member port's has. The sequence
 * generators hang on the host port alone. */
struct maps find_maps(const char *device)
{
	struct maps maps = {-1, -1, -1, -1, -1, -1, -1, -1};
	struct switch_config config;
	int program = program_at(ifindex_of(device));

	if (program < 0)
		die("no switch and no station runs on '%s'", device);
	add_maps_of(&maps, program);
	if (maps.config < 0 || maps.stations < 0)
		die("what runs on '%s' is not a switch or station of frerctl", device);
	config = read_config(maps.config);
	if (!config.paths)
		return maps;
	program = program_at(config.member_ifindex[0]);
	if (program < 0)
		die("the member port of '%s' has no program any more", device);
	add_maps_of(&maps, program);
	if (config.host_ifindex != ifindex_of(device))
		add_maps_of(&maps, program_at(config.host_ifindex));
	return maps;
}

struct maps find_switch(const char *device)
{
	struct maps maps = find_maps(device);

	if (maps.recovery < 0)
		die("what runs on '%s' is a station, not a switch", device);
	return maps;
}
