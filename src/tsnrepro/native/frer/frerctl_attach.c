/* SPDX-License-Identifier: MIT
 *
 * Loading the eBPF objects and attaching their programs to ports.
 */
#include "frerctl_commands.h"
#include "frerctl_maps.h"
#include "frerctl_options.h"

static int program_fd(struct bpf_object *object, const char *name)
{
	struct bpf_program *program = bpf_object__find_program_by_name(object, name);

	if (!program)
		die("no program '%s' in the loaded object", name);
	return bpf_program__fd(program);
}

static void attach_tc(unsigned int ifindex, enum bpf_tc_attach_point point, int fd)
{
	LIBBPF_OPTS(bpf_tc_hook, hook, .ifindex = ifindex, .attach_point = point);
	LIBBPF_OPTS(bpf_tc_opts, filter, .handle = FILTER_HANDLE, .priority = FILTER_PRIORITY,
		    .prog_fd = fd, .flags = BPF_TC_F_REPLACE);
	int error = bpf_tc_hook_create(&hook);

	if (error && error != -EEXIST)
		die("cannot add clsact to device %u: %s", ifindex, strerror(-error));
	error = bpf_tc_attach(&hook, &filter);
	if (error)
		die("cannot attach a tc program to device %u: %s", ifindex, strerror(-error));
}

/* Bind a map that no program reads to one: it then lives as long, and is found by it. */
static void bind_map(int program, int map)
{
	if (bpf_prog_bind_map(program, map, NULL))
		die("cannot bind a map to its program: %s", strerror(errno));
}

/* There is no default: the right values depend on the paths and the traffic. */
static void require_recovery(const struct switch_config *config)
{
	if (!config->stream[0].recovery.history_length || !config->stream[0].recovery.reset_ns)
		die("sequence recovery needs --history and --reset-ms");
}

void command_switch(int argc, char **argv)
{
	struct switch_config config = {.streams = 1, .one_stream = 1};
	struct bpf_object *object;
	char *port;
	__u32 path;

	port = strtok(argv[0], ",");
	if (!port)
		die("name the host port and the member ports: HOST,MEMBER[,MEMBER]...");
	config.host_ifindex = ifindex_of(port);
	while ((port = strtok(NULL, ","))) {
		if (config.paths == FRER_MAX_PATHS)
			die("more than %d member ports", FRER_MAX_PATHS);
		config.member_ifindex[config.paths++] = ifindex_of(port);
	}
	if (!config.paths)
		die("name at least one member port after the host port");
	read_one_stream(argc, argv, &config);
	require_recovery(&config);
	object = load_object("switch.bpf.o");
	write_config(map_fd(object, "frer_config"), map_fd(object, "stream_ports"), &config);
	begin_recovery(map_fd(object, "frer_recovery"), FRER_MAX_STREAMS, false, &config);
	begin_recovery(map_fd(object, "frer_individual"), FRER_MAX_STREAMS, true, &config);
	bind_map(program_fd(object, "member_ingress"), map_fd(object, "frer_latent"));
	for (path = 0; path < config.paths; path++)
		attach_tc(config.member_ifindex[path], BPF_TC_INGRESS,
			  program_fd(object, "member_ingress"));
	attach_tc(config.host_ifindex, BPF_TC_INGRESS, program_fd(object, "host_ingress"));
}

void command_station(int argc, char **argv)
{
	unsigned int ifindex = ifindex_of(argv[0]);
	struct switch_config config = {.streams = 1, .one_stream = 1};
	struct bpf_object *object;

	read_one_stream(argc, argv, &config);
	object = load_object("station.bpf.o");
	write_config(map_fd(object, "frer_config"), map_fd(object, "stream_ports"), &config);
	attach_tc(ifindex, BPF_TC_EGRESS, program_fd(object, "station_egress"));
	attach_tc(ifindex, BPF_TC_INGRESS, program_fd(object, "station_ingress"));
}

void command_listener(int argc, char **argv)
{
	unsigned int ifindex = ifindex_of(argv[0]);
	struct switch_config config = {.streams = 1, .one_stream = 1};
	struct bpf_object *object;

	read_one_stream(argc, argv, &config);
	require_recovery(&config);
	object = load_object("listener.bpf.o");
	write_config(map_fd(object, "frer_config"), map_fd(object, "stream_ports"), &config);
	begin_recovery(map_fd(object, "frer_recovery"), FRER_MAX_STREAMS, false, &config);
	bind_map(program_fd(object, "listener_ingress"), map_fd(object, "frer_latent"));
	attach_tc(ifindex, BPF_TC_EGRESS, program_fd(object, "listener_egress"));
	attach_tc(ifindex, BPF_TC_INGRESS, program_fd(object, "listener_ingress"));
}
