/* SPDX-License-Identifier: MIT
 *
 * Where the kernel drops frames of the streams: counted until standard input ends. Each line read
 * prints the drops so far as a line of JSON.
 */
#include <bpf/btf.h>

#include "frerctl_commands.h"
#include "frerctl_maps.h"
#include "frerctl_options.h"

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

/* Find the function at an address: the last symbol that starts at or before it. */
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
			       "\"netns\": %u, \"later_fragment\": %s, \"stream\": %u, "
			       "\"frames\": %llu}",
			       separator, symbol_of(key.location), reason_name(key.reason),
			       key.ifindex, key.netns, key.later_fragment ? "true" : "false",
			       key.stream, count);
			separator = ", ";
		}
		previous = &key;
	}
	puts("]");
	fflush(stdout);
}

/* A line may change the streams: a --stream and a --min-payload value for each. */
static bool read_line(char *line, struct switch_config *config)
{
	char *word, *payload;
	__u32 streams = 0;

	for (word = strtok(line, " \n"); word; word = strtok(NULL, " \n")) {
		payload = strtok(NULL, " \n");
		if (!payload)
			die("'%s' lacks a minimum payload after it", word);
		if (streams == FRER_MAX_STREAMS)
			die("more than %d streams", FRER_MAX_STREAMS);
		read_filter(&config->stream[streams].filter, word);
		config->stream[streams++].filter.min_payload = number(payload, "payload", 0, 65507);
	}
	if (streams)
		config->streams = streams;
	return streams > 0;
}

void command_drops(int argc, char **argv)
{
	static struct switch_config config = {.streams = 1};
	struct bpf_program *program;
	struct bpf_object *object;
	static char line[2048];

	read_one_stream(argc, argv, &config);
	object = load_object("drops.bpf.o");
	write_config(map_fd(object, "frer_config"), map_fd(object, "stream_ports"), &config);
	bpf_object__for_each_program(program, object)
		if (!bpf_program__attach(program))
			die("cannot attach to the kfree_skb tracepoint: %s", strerror(errno));
	puts("ready");
	fflush(stdout);
	while (fgets(line, sizeof(line), stdin)) {
		if (read_line(line, &config))
			write_config(map_fd(object, "frer_config"), map_fd(object, "stream_ports"),
				   &config);
		print_drops(map_fd(object, "stream_drops"));
	}
	/* The programs detach with this process. */
}
