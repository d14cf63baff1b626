/* SPDX-License-Identifier: MIT
 *
 * Loading the eBPF programs and attaching them to ports.
 */
#include <libgen.h>

#include "frerctl.h"

/* The eBPF objects lie beside this program. */
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

/* A map that no program reads belongs to one all the same: it lives as long, and is found by it. */
static void bind_map(int program, int map)
{
	if (bpf_prog_bind_map(program, map, NULL))
		die("cannot bind a map to its program: %s", strerror(errno));
}

/* What they are by default is for the settings of the testbed to say. */
static void need_recovery(const struct switch_config *config)
{
	if (!config->stream[0].recovery.history_length || !config->stream[0].recovery.reset_ns)
		die("give what recovers its --history and its --reset-ms");
}

void command_switch(char *ports, int argc, char **argv)
{
	struct switch_config config = {.streams = 1, .one_stream = 1};
	struct bpf_object *object;
	char *port;
	__u32 path;

	port = strtok(ports, ",");
	if (!port)
		die("name the host port and the member ports: HOST,MEMBER[,MEMBER...]");
	config.host_ifindex = ifindex_of(port);
	while ((port = strtok(NULL, ","))) {
		if (config.paths == FRER_MAX_PATHS)
			die("more than %d member ports", FRER_MAX_PATHS);
		config.member_ifindex[config.paths++] = ifindex_of(port);
	}
	if (!config.paths)
		die("name at least one member port behind the host port");
	read_one_stream(argc, argv, &config);
	need_recovery(&config);
	object = load_object("switch.bpf.o");
	put_config(map_fd(object, "frer_config"), map_fd(object, "stream_ports"), &config);
	begin_recovery(map_fd(object, "frer_recovery"), FRER_MAX_STREAMS, false, &config);
	begin_recovery(map_fd(object, "frer_individual"), FRER_MAX_STREAMS, true, &config);
	bind_map(program_fd(object, "member_ingress"), map_fd(object, "frer_latent"));
	for (path = 0; path < config.paths; path++)
		attach_tc(config.member_ifindex[path], BPF_TC_INGRESS,
			  program_fd(object, "member_ingress"));
	attach_tc(config.host_ifindex, BPF_TC_INGRESS, program_fd(object, "host_ingress"));
}

void command_station(const char *device, int argc, char **argv)
{
	unsigned int ifindex = ifindex_of(device);
	struct switch_config config = {.streams = 1, .one_stream = 1};
	struct bpf_object *object;

	read_one_stream(argc, argv, &config);
	object = load_object("station.bpf.o");
	put_config(map_fd(object, "frer_config"), map_fd(object, "stream_ports"), &config);
	attach_tc(ifindex, BPF_TC_EGRESS, program_fd(object, "station_egress"));
	attach_tc(ifindex, BPF_TC_INGRESS, program_fd(object, "station_ingress"));
}

void command_listener(const char *device, int argc, char **argv)
{
	unsigned int ifindex = ifindex_of(device);
	struct switch_config config = {.streams = 1, .one_stream = 1};
	struct bpf_object *object;

	read_one_stream(argc, argv, &config);
	need_recovery(&config);
	object = load_object("listener.bpf.o");
	put_config(map_fd(object, "frer_config"), map_fd(object, "stream_ports"), &config);
	begin_recovery(map_fd(object, "frer_recovery"), FRER_MAX_STREAMS, false, &config);
	bind_map(program_fd(object, "listener_ingress"), map_fd(object, "frer_latent"));
	attach_tc(ifindex, BPF_TC_EGRESS, program_fd(object, "listener_egress"));
	attach_tc(ifindex, BPF_TC_INGRESS, program_fd(object, "listener_ingress"));
}
