/* SPDX-License-Identifier: MIT
 *
 * Starting DPDK without huge pages, shared configuration, or files that outlive the program.
 */
#include "state.h"

#include <errno.h>
#include <rte_eal.h>
#include <rte_errno.h>
#include <sched.h>
#include <stdarg.h>
#include <stdlib.h>
#include <unistd.h>

enum {
	RING_FRAMES = 1024,
	MOST_ARGUMENTS = 32,
	ARGUMENT_BYTES = 160,
	/* Every processor is listed once at most: four digits, and a comma or a dash. */
	PROCESSORS_BYTES = 5 * CPU_SETSIZE + 1,
	/* All of them for every thread: the first, one to receive per port, one to send. */
	LCORES_BYTES = 16 + (MOST_PORTS + 2) * (PROCESSORS_BYTES + 16),
};

bool is_card(const char *name) { return strchr(name, ':') != NULL; }

/* Append to a text in a buffer of `room` bytes. */
static void append(char *text, size_t room, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

static void append(char *text, size_t room, const char *format, ...)
{
	size_t used = strlen(text);
	va_list arguments;

	va_start(arguments, format);
	int added = vsnprintf(text + used, room - used, format, arguments);
	va_end(arguments);
	if (added < 0 || (size_t)added >= room - used)
		die("the list of processors is longer than %zu bytes", room);
}

static cpu_set_t allowed_processors(void)
{
	cpu_set_t allowed;

	if (sched_getaffinity(0, sizeof allowed, &allowed))
		die("cannot read the allowed processors: %s", strerror(errno));
	return allowed;
}

int count_processors(void)
{
	cpu_set_t allowed = allowed_processors();

	return CPU_COUNT(&allowed);
}

/* List the processors that this program may use, as DPDK reads them: 0-3,8. */
static void list_processors(const cpu_set_t *allowed, char *list, size_t room)
{
	list[0] = 0;
	for (int first = 0, last; first < CPU_SETSIZE; first = last + 1) {
		last = first;
		if (!CPU_ISSET(first, allowed))
			continue;
		while (last + 1 < CPU_SETSIZE && CPU_ISSET(last + 1, allowed))
			last++;
		append(list, room, "%s%d", *list ? "," : "", first);
		if (last > first)
			append(list, room, "-%d", last);
	}
}

static int next_processor(const cpu_set_t *allowed, int before)
{
	int number = before + 1;
	while (number < CPU_SETSIZE && !CPU_ISSET(number, allowed))
		number++;
	return number;
}

/* Threads that poll without sleep get a processor each if there are enough; the others share all. */
static void list_lcores(const struct bridge *bridge, char *list, size_t room)
{
	cpu_set_t allowed = allowed_processors();
	char all[PROCESSORS_BYTES];

	list_processors(&allowed, all, sizeof all);
	bool own = bridge->settings.sleep_us == 0 && CPU_COUNT(&allowed) > workers(bridge);
	int one = next_processor(&allowed, -1);
	list[0] = 0;
	append(list, room, "--lcores=0@(%s)", all);
	for (int number = 1; number <= workers(bridge); number++) {
		one = next_processor(&allowed, one);
		if (own)
			append(list, room, ",%d@(%d)", number, one);
		else
			append(list, room, ",%d@(%s)", number, all);
	}
}

/* Remove an empty folder and its parents, up to the outermost. */
static void remove_folders(const char *inner, const char *outermost)
{
	char path[ARGUMENT_BYTES];

	snprintf(path, sizeof path, "%s", inner);
	while (!strncmp(path, outermost, strlen(outermost)) && rmdir(path) == 0 &&
	       strcmp(path, outermost))
		*strrchr(path, '/') = 0;
}

void start_dpdk(struct bridge *bridge)
{
	static char texts[MOST_ARGUMENTS][ARGUMENT_BYTES * 2];
	static char lcores[LCORES_BYTES];
	char *arguments[MOST_ARGUMENTS + 1];
	/*
	 * DPDK makes folders to share with other processes, of which there are none: in a place of
	 * their own, and removed before the bridge works, so that they do not outlive one that is
	 * killed.
	 */
	char folder[] = "/tmp/tsn-bridge-XXXXXX";
	static const char *const fixed[] = {
		"tsn-bridge", "--no-huge", "--no-shconf", "--no-telemetry", "--log-level=error", "-m",
	};
	int count = 0, cards = 0;

	if (!mkdtemp(folder) || setenv("RUNTIME_DIRECTORY", folder, 1))
		die("cannot create %s", folder);
	for (size_t number = 0; number < sizeof fixed / sizeof *fixed; number++)
		snprintf(texts[count++], sizeof *texts, "%s", fixed[number]);
	snprintf(texts[count++], sizeof *texts, "%d",
			 32 + (int)((int64_t)POOL_FRAMES * (bridge->frame_room + 512) >> 20));
	for (int number = 0; number < bridge->port_count; number++) {
		const char *name = bridge->ports[number].name;
		if (is_card(name)) {
			cards++;
			snprintf(texts[count++], sizeof *texts, "--allow=%s", name);
		} else if (!strcmp(bridge->driver, "net_af_packet")) {
			int room = bridge->frame_room;
			snprintf(texts[count++], sizeof *texts,
					 "--vdev=%s%d,iface=%s,blocksz=%d,framesz=%d,framecnt=%d,qdisc_bypass=1",
					 bridge->driver, number, name, room * 2, room, RING_FRAMES);
		} else {
			snprintf(texts[count++], sizeof *texts, "--vdev=%s%d,iface=%s", bridge->driver,
					 number, name);
		}
	}
	if (!cards)
		snprintf(texts[count++], sizeof *texts, "--no-pci");
	for (int number = 0; number < count; number++)
		arguments[number] = texts[number];
	list_lcores(bridge, lcores, sizeof lcores);
	arguments[count++] = lcores;
	bool started = rte_eal_init(count, arguments) >= 0;
	int problem = rte_errno;
	remove_folders(rte_eal_get_runtime_dir(), folder);
	if (!started)
		die("DPDK does not start with these ports: %s", rte_strerror(problem));
}

