/* SPDX-License-Identifier: MIT
 *
 * frerctl: the control plane of the emulated switch, run on the switch itself.
 *
 *   frerctl switch PORTS OPTIONS    load and attach; PORTS is HOST,MEMBER[,MEMBER...]
 *   frerctl station DEV             count what a host's card sends and receives
 *   frerctl set PORT OPTIONS        change a running switch; recovery starts afresh
 *   frerctl counters PORT           every counter, as JSON
 *   frerctl drops OPTIONS           locate drops of the stream until standard input ends;
 *                                   each line read prints the drops so far as a line of JSON
 *
 * Nothing is pinned: the programs hang on their ports and go with them, and a
 * running switch is found again by the programs on its port.
 */
#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <libgen.h>
#include <linux/if_link.h>
#include <net/if.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <bpf/bpf.h>
#include <bpf/btf.h>
#include <bpf/libbpf.h>

#include "frer.h"

#define FILTER_HANDLE 1
#define FILTER_PRIORITY 1
#define MAX_MAPS 16
#define MAX_CPUS 1024

struct recovery_value { /* layout of struct recovery in switch.bpf.c */
	__u32 lock;
	__u32 take_any;
	__u32 recov_seq_num;
	__u32 unused;
	__u64 reloaded_ns;
	__u64 counters[FRER_COUNTERS];
	__u64 history[FRER_HISTORY_WORDS];
};

static const char *counter_names[FRER_COUNTERS] = {
	"out_of_order", "rogue", "passed", "discarded", "lost", "tagless", "resets",
};

/* libbpf speaks up about things that are no failure here (a clsact that is already
 * there), so its last words are kept and shown only when something did fail. */
static char last_words[4096];

static int keep_last_words(enum libbpf_print_level level, const char *format, va_list arguments)
{
	if (level == LIBBPF_WARN)
		vsnprintf(last_words, sizeof(last_words), format, arguments);
	return 0;
}

static void __attribute__((noreturn, format(printf, 1, 2))) die(const char *format, ...)
{
	va_list arguments;

	fputs("frerctl: ", stderr);
	va_start(arguments, format);
	vfprintf(stderr, format, arguments);
	va_end(arguments);
	fputc('\n', stderr);
	if (*last_words)
		fprintf(stderr, "frerctl: libbpf said: %s", last_words);
	exit(1);
}

static unsigned int ifindex_of(const char *name)
{
	unsigned int ifindex = if_nametoindex(name);

	if (!ifindex)
		die("no network device '%s' in this namespace", name);
	return ifindex;
}

static unsigned long number(const char *text, const char *what, unsigned long low,
			    unsigned long high)
{
	char *end;
	unsigned long value = strtoul(text, &end, 10);

	if (*text == '\0' || *end != '\0' || value < low || value > high)
		die("%s '%s' is not a number from %lu to %lu", what, text, low, high);
	return value;
}

static bool on_or_off(const char *text, const char *what)
{
	if (!strcmp(text, "on"))
		return true;
	if (!strcmp(text, "off"))
		return false;
	die("%s takes 'on' or 'off', not '%s'", what, text);
}

/* --- options --------------------------------------------------------------- */

static const struct option options[] = {
	{"frer", required_argument, NULL, 'f'},
	{"algorithm", required_argument, NULL, 'a'},
	{"history", required_argument, NULL, 'l'},
	{"reset-ms", required_argument, NULL, 'r'},
	{"take-no-sequence", required_argument, NULL, 't'},
	{"stream", required_argument, NULL, 's'},
	{"min-payload", required_argument, NULL, 'm'},
	{NULL, 0, NULL, 0},
};

static void set_algorithm(struct switch_config *config, const char *text)
{
	if (!strcmp(text, "vector"))
		config->algorithm = FRER_VECTOR;
	else if (!strcmp(text, "match"))
		config->algorithm = FRER_MATCH;
	else
		die("--algorithm takes 'vector' or 'match', not '%s'", text);
}

static void set_stream(struct stream_filter *stream, const char *text)
{
	if (!strncmp(text, "udp:", 4))
		stream->ip_protocol = 17;
	else if (!strncmp(text, "tcp:", 4))
		stream->ip_protocol = 6;
	else
		die("--stream takes udp:PORT or tcp:PORT, not '%s'", text);
	stream->port = number(text + 4, "port", 1, 65535);
}

static void read_options(int argc, char **argv, struct switch_config *config)
{
	int option;

	optind = 1;
	while ((option = getopt_long(argc, argv, "", options, NULL)) != -1) {
		switch (option) {
		case 'f':
			config->frer = on_or_off(optarg, "--frer");
			break;
		case 'a':
			set_algorithm(config, optarg);
			break;
		case 'l':
			config->history_length =
				number(optarg, "--history", 2, FRER_HISTORY_BITS);
			break;
		case 'r':
			config->reset_ns =
				number(optarg, "--reset-ms", 1, 3600000) * 1000000ULL;
			break;
		case 't':
			config->take_no_sequence = on_or_off(optarg, "--take-no-sequence");
			break;
		case 's':
			set_stream(&config->stream, optarg);
			break;
		case 'm':
			config->stream.min_payload = number(optarg, "--min-payload", 0, 65507);
			break;
		default:
			die("unknown option; see the head of frerctl.c for the usage");
		}
	}
	if (optind < argc)
		die("'%s' is one word too many", argv[optind]);
}

/* --- loading and attaching -------------------------------------------------- */

/* The eBPF objects lie beside this program. */
static struct bpf_object *load_object(const char *name)
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

static int map_fd(struct bpf_object *object, const char *name)
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

static void attach_xdp(unsigned int ifindex, int fd)
{
	int error = bpf_xdp_attach(ifindex, fd, XDP_FLAGS_DRV_MODE, NULL);

	if (error)
		die("cannot attach the XDP program to device %u: %s", ifindex, strerror(-error));
}

static void put_config(int fd, const struct switch_config *config)
{
	__u32 key = 0;

	if (bpf_map_update_elem(fd, &key, config, BPF_ANY))
		die("cannot write the configuration: %s", strerror(errno));
}

/* BEGIN of IEEE 802.1CB-2017, 7.4.3.3: take any sequence number first. */
static void begin_recovery(int fd)
{
	struct recovery_value state = {.take_any = 1, .recov_seq_num = FRER_SEQUENCE_SPACE - 1};
	struct recovery_value old;
	__u32 key = 0;

	if (!bpf_map_lookup_elem(fd, &key, &old))
		memcpy(state.counters, old.counters, sizeof(state.counters));
	if (bpf_map_update_elem(fd, &key, &state, BPF_ANY))
		die("cannot reset the recovery function: %s", strerror(errno));
}

static void begin_generator(int fd)
{
	struct generator state = {}, old;
	__u32 key = 0;

	if (!bpf_map_lookup_elem(fd, &key, &old))
		state.gso_refused = old.gso_refused;
	if (bpf_map_update_elem(fd, &key, &state, BPF_ANY))
		die("cannot reset the sequence generator: %s", strerror(errno));
}

static void command_switch(char *ports, int argc, char **argv)
{
	struct switch_config config = {
		.history_length = 128, .reset_ns = 2000000000ULL, .algorithm = FRER_VECTOR,
	};
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
	read_options(argc, argv, &config);

	object = load_object("switch.bpf.o");
	put_config(map_fd(object, "frer_config"), &config);
	begin_recovery(map_fd(object, "frer_recovery"));
	for (path = 0; path < config.paths; path++) {
		attach_xdp(config.member_ifindex[path], program_fd(object, "member_ingress"));
		attach_tc(config.member_ifindex[path], BPF_TC_INGRESS,
			  program_fd(object, "member_to_host"));
	}
	attach_tc(config.host_ifindex, BPF_TC_INGRESS, program_fd(object, "host_ingress"));
}

static void command_station(const char *device, int argc, char **argv)
{
	unsigned int ifindex = ifindex_of(device);
	struct switch_config config = {};
	struct bpf_object *object;

	read_options(argc, argv, &config);
	object = load_object("station.bpf.o");
	put_config(map_fd(object, "frer_config"), &config);
	attach_tc(ifindex, BPF_TC_EGRESS, program_fd(object, "station_egress"));
	attach_tc(ifindex, BPF_TC_INGRESS, program_fd(object, "station_ingress"));
}

/* --- finding what runs -------------------------------------------------------- */

struct running {
	int config, generator, recovery, stations; /* map descriptors; -1: has none */
};

static int program_on(const char *device)
{
	LIBBPF_OPTS(bpf_tc_hook, hook, .ifindex = ifindex_of(device),
		    .attach_point = BPF_TC_INGRESS);
	LIBBPF_OPTS(bpf_tc_opts, filter, .handle = FILTER_HANDLE, .priority = FILTER_PRIORITY);
	int fd;

	if (bpf_tc_query(&hook, &filter))
		die("no switch and no station runs on '%s'", device);
	fd = bpf_prog_get_fd_by_id(filter.prog_id);
	if (fd < 0)
		die("cannot open the program on '%s': %s", device, strerror(errno));
	return fd;
}

static void keep_map(struct running *found, __u32 id)
{
	struct bpf_map_info info = {};
	__u32 length = sizeof(info);
	int fd = bpf_map_get_fd_by_id(id);

	if (fd < 0 || bpf_obj_get_info_by_fd(fd, &info, &length))
		die("cannot read map %u: %s", id, strerror(errno));
	if (!strcmp(info.name, "frer_config"))
		found->config = fd;
	else if (!strcmp(info.name, "frer_generator"))
		found->generator = fd;
	else if (!strcmp(info.name, "frer_recovery"))
		found->recovery = fd;
	else if (!strcmp(info.name, "stations"))
		found->stations = fd;
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

static struct switch_config get_config(int fd)
{
	struct switch_config config;
	__u32 key = 0;

	if (bpf_map_lookup_elem(fd, &key, &config))
		die("cannot read the configuration: %s", strerror(errno));
	return config;
}

/* The host port's program has no recovery map; a member port's XDP program has. */
static struct running find_running(const char *device)
{
	struct running found = {-1, -1, -1, -1};
	struct switch_config config;
	__u32 id = 0;

	add_maps_of(&found, program_on(device));
	if (found.config < 0 || found.stations < 0)
		die("what runs on '%s' is not a switch or station of ours", device);
	config = get_config(found.config);
	if (config.paths && found.recovery < 0) {
		if (bpf_xdp_query_id(config.member_ifindex[0], 0, &id) || !id)
			die("the member port of '%s' has lost its XDP program", device);
		add_maps_of(&found, bpf_prog_get_fd_by_id(id));
	}
	return found;
}

static void command_set(const char *device, int argc, char **argv)
{
	struct running found = find_running(device);
	struct switch_config config = get_config(found.config);

	read_options(argc, argv, &config);
	put_config(found.config, &config);
	if (found.recovery >= 0)
		begin_recovery(found.recovery);
	if (found.generator >= 0)
		begin_generator(found.generator);
}

/* --- counters ------------------------------------------------------------------ */

static struct station sum_station(int fd, __u32 index)
{
	static struct station per_cpu[MAX_CPUS];
	struct station sum = {};
	int cpus = libbpf_num_possible_cpus(), cpu;

	if (cpus < 1 || cpus > MAX_CPUS)
		die("this machine's number of processors (%d) is beyond %d", cpus, MAX_CPUS);
	if (bpf_map_lookup_elem(fd, &index, per_cpu))
		die("cannot read the station counters: %s", strerror(errno));
	for (cpu = 0; cpu < cpus; cpu++) {
		sum.frames += per_cpu[cpu].frames;
		sum.bytes += per_cpu[cpu].bytes;
		sum.stream_frames += per_cpu[cpu].stream_frames;
		sum.stream_fragments += per_cpu[cpu].stream_fragments;
	}
	return sum;
}

static void print_station(int fd, __u32 index)
{
	struct station sum = sum_station(fd, index);

	printf("{\"frames\": %llu, \"bytes\": %llu, \"stream_frames\": %llu, "
	       "\"stream_fragments\": %llu}",
	       sum.frames, sum.bytes, sum.stream_frames, sum.stream_fragments);
}

static void print_port(int fd, const char *name, __u32 port)
{
	printf("\"%s\": {\"in\": ", name);
	print_station(fd, STATION_IN(port));
	fputs(", \"out\": ", stdout);
	print_station(fd, STATION_OUT(port));
	putchar('}');
}

static void print_ports(int fd, const struct switch_config *config)
{
	char name[IF_NAMESIZE];
	__u32 path;

	fputs("\"ports\": {", stdout);
	print_port(fd, if_indextoname(config->host_ifindex, name) ? name : "?", 0);
	for (path = 0; path < config->paths; path++) {
		fputs(", ", stdout);
		print_port(fd, if_indextoname(config->member_ifindex[path], name) ? name : "?",
			   1 + path);
	}
	fputs("}, \"eliminated\": ", stdout);
	print_station(fd, STATION_ELIMINATED);
	fputs(", \"rogue\": ", stdout);
	print_station(fd, STATION_ROGUE);
	fputs(", \"tagless\": ", stdout);
	print_station(fd, STATION_TAGLESS);
}

/* The timer is looked at when a frame comes; between frames it is looked at here,
 * so that an expiry shows without waiting for traffic. */
static bool timer_expired(const struct recovery_value *state, const struct switch_config *config)
{
	struct timespec now;
	__u64 ns;

	clock_gettime(CLOCK_MONOTONIC, &now);
	ns = now.tv_sec * 1000000000ULL + now.tv_nsec;
	return state->reloaded_ns && config->reset_ns &&
	       ns >= state->reloaded_ns + config->reset_ns;
}

static void print_recovery(int fd, const struct switch_config *config)
{
	struct recovery_value state;
	bool expired;
	__u32 key = 0;
	int index;

	if (bpf_map_lookup_elem(fd, &key, &state))
		die("cannot read the recovery state: %s", strerror(errno));
	expired = timer_expired(&state, config);
	state.counters[FRER_RESETS] += expired;
	printf("\"recovery\": {\"algorithm\": \"%s\", \"history_length\": %u, \"reset_ms\": %llu, "
	       "\"take_any\": %s, \"recov_seq_num\": %u",
	       config->algorithm == FRER_MATCH ? "match" : "vector", config->history_length,
	       config->reset_ns / 1000000, state.take_any || expired ? "true" : "false",
	       state.recov_seq_num);
	for (index = 0; index < FRER_COUNTERS; index++)
		printf(", \"%s\": %llu", counter_names[index], state.counters[index]);
	putchar('}');
}

static void print_generator(int fd)
{
	struct generator state;
	__u32 key = 0;

	if (bpf_map_lookup_elem(fd, &key, &state))
		die("cannot read the sequence generator: %s", strerror(errno));
	printf("\"generator\": {\"numbered\": %llu, \"next\": %llu, \"gso_refused\": %llu}, ",
	       state.next, state.next % FRER_SEQUENCE_SPACE, state.gso_refused);
}

static void command_counters(const char *device)
{
	struct running found = find_running(device);
	struct switch_config config = get_config(found.config);

	putchar('{');
	if (!config.paths) {
		print_port(found.stations, device, 0);
	} else {
		printf("\"frer\": %s, \"paths\": %u, ", config.frer ? "true" : "false",
		       config.paths);
		if (found.generator >= 0)
			print_generator(found.generator);
		print_recovery(found.recovery, &config);
		fputs(", ", stdout);
		print_ports(found.stations, &config);
	}
	puts("}");
}

/* --- where frames are dropped ---------------------------------------------------- */

/* The name of a drop reason in the running kernel, whose numbers differ by version. */
static const char *reason_name(__u32 reason)
{
	static struct btf *kernel;
	const struct btf_type *type;
	const struct btf_enum *value;
	int id, index;

	if (!kernel)
		kernel = btf__load_vmlinux_btf();
	id = kernel ? btf__find_by_name_kind(kernel, "skb_drop_reason", BTF_KIND_ENUM) : -1;
	if (id < 0)
		return "unknown";
	type = btf__type_by_id(kernel, id);
	value = btf_enum(type);
	for (index = 0; index < btf_vlen(type); index++, value++)
		if (value->val == (__s32)reason)
			return btf__name_by_offset(kernel, value->name_off);
	return "unknown";
}

#define MAX_LOCATIONS 64

/* The function an address lies in: the last symbol that does not start behind it. */
static void read_symbol(__u64 address, char *symbol, size_t size)
{
	FILE *symbols = fopen("/proc/kallsyms", "r");
	unsigned long long start, best = 0;
	char line[512], name[128], type;

	snprintf(symbol, size, "unknown");
	while (symbols && fgets(line, sizeof(line), symbols)) {
		if (sscanf(line, "%llx %c %127s", &start, &type, name) != 3)
			continue;
		if (start <= address && start > best && (type == 't' || type == 'T')) {
			best = start;
			snprintf(symbol, size, "%s", name);
		}
	}
	if (symbols)
		fclose(symbols);
}

static const char *symbol_of(__u64 address)
{
	static struct {
		__u64 address;
		char name[128];
	} known[MAX_LOCATIONS];
	int index;

	for (index = 0; index < MAX_LOCATIONS - 1 && known[index].address; index++)
		if (known[index].address == address)
			return known[index].name;
	known[index].address = address;
	read_symbol(address, known[index].name, sizeof(known[index].name));
	return known[index].name;
}

static void print_drops(int fd)
{
	struct drop_key key, *previous = NULL;
	const char *separator = "";
	__u64 count;

	putchar('[');
	while (!bpf_map_get_next_key(fd, previous, &key)) {
		if (!bpf_map_lookup_elem(fd, &key, &count)) {
			printf("%s{\"function\": \"%s\", \"reason\": \"%s\", \"ifindex\": %u, "
			       "\"netns\": %u, \"later_fragment\": %s, \"frames\": %llu}",
			       separator, symbol_of(key.location), reason_name(key.reason),
			       key.ifindex, key.netns, key.later_fragment ? "true" : "false",
			       count);
			separator = ", ";
		}
		previous = &key;
	}
	puts("]");
	fflush(stdout);
}

static void command_drops(int argc, char **argv)
{
	struct switch_config config = {};
	struct bpf_program *program;
	struct bpf_object *object;
	char line[256];

	read_options(argc, argv, &config);
	object = load_object("drops.bpf.o");
	put_config(map_fd(object, "frer_config"), &config);
	bpf_object__for_each_program(program, object)
		if (!bpf_program__attach(program))
			die("cannot attach to the kfree_skb tracepoint: %s", strerror(errno));
	puts("ready");
	fflush(stdout);
	while (fgets(line, sizeof(line), stdin)) {
		/* A line may change the stream: the same words as --stream and --min-payload. */
		char *word = strtok(line, " \n"), *payload = strtok(NULL, " \n");

		if (word && payload) {
			set_stream(&config.stream, word);
			config.stream.min_payload = number(payload, "payload", 0, 65507);
			put_config(map_fd(object, "frer_config"), &config);
		}
		print_drops(map_fd(object, "stream_drops"));
	}
	/* The programs detach with this process. */
}

int main(int argc, char **argv)
{
	const char *command = argc > 1 ? argv[1] : "";

	libbpf_set_print(keep_last_words);
	if (!strcmp(command, "switch") && argc > 2)
		command_switch(argv[2], argc - 2, argv + 2);
	else if (!strcmp(command, "station") && argc > 2)
		command_station(argv[2], argc - 2, argv + 2);
	else if (!strcmp(command, "set") && argc > 2)
		command_set(argv[2], argc - 2, argv + 2);
	else if (!strcmp(command, "counters") && argc == 3)
		command_counters(argv[2]);
	else if (!strcmp(command, "drops"))
		command_drops(argc - 1, argv + 1);
	else
		die("usage: frerctl switch PORTS | station DEV | set PORT | counters PORT | drops");
	return 0;
}
