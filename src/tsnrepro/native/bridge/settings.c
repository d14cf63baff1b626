/* SPDX-License-Identifier: MIT
 *
 * See settings.h.
 */
#include "settings.h"

#include "../program.h"

#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

enum { LINE_BYTES = 512, MOST_FIELDS = 16 };

/* The fields of a line, and where an error message goes. */
struct line {
	int number, count;
	char *fields[MOST_FIELDS];
	char *problem;
	size_t room;
};

static bool wrong(const struct line *line, const char *format, ...)
	__attribute__((format(printf, 2, 3)));

static bool wrong(const struct line *line, const char *format, ...)
{
	va_list arguments;
	int used = snprintf(line->problem, line->room, "line %d: ", line->number);

	va_start(arguments, format);
	vsnprintf(line->problem + used, line->room - (size_t)used, format, arguments);
	va_end(arguments);
	return false;
}

static bool whole(const struct line *line, int place, int64_t low, int64_t high, int64_t *value)
{
	char *end;

	errno = 0;
	long long read = strtoll(line->fields[place], &end, 0);
	if (*end || errno || read < low || read > high)
		return wrong(line, "%s %s: expected a whole number from %lld to %lld", line->fields[0],
					 line->fields[place], (long long)low, (long long)high);
	*value = read;
	return true;
}

/* Read a number and scale it to an integer, for example megabits to kilobits. */
static bool scaled(const struct line *line, int place, double scale, int64_t *value)
{
	char *end;
	double read = strtod(line->fields[place], &end);

	if (*end || !isfinite(read) || fabs(read * scale) > 9e18)
		return wrong(line, "%s %s: expected a number", line->fields[0], line->fields[place]);
	*value = llround(read * scale);
	return true;
}

static bool has_fields(const struct line *line, int low, int high)
{
	if (line->count - 1 < low || line->count - 1 > high)
		return wrong(line, "%s takes %d to %d values, not %d", line->fields[0], low, high,
					 line->count - 1);
	return true;
}

/* --- keys of a port ------------------------------------------------------------------------ */

static bool read_selection(const struct line *line, struct scheduler_settings *port)
{
	if (!strcmp(line->fields[1], "standard"))
		port->selection = SELECT_STANDARD;
	else if (!strcmp(line->fields[1], "by-kind"))
		port->selection = SELECT_BY_KIND;
	else
		return wrong(line, "selection is standard or by-kind, not %s", line->fields[1]);
	return true;
}

static bool read_guard(const struct line *line, struct scheduler_settings *port)
{
	static const char *const names[] = {"frame", "longest", "none"};
	static const enum guard guards[] = {GUARD_FRAME, GUARD_LONGEST, GUARD_NONE};

	for (int number = 0; number < 3; number++)
		if (!strcmp(line->fields[1], names[number])) {
			port->gates.guard = guards[number];
			return true;
		}
	port->gates.guard = GUARD_TIME;
	return whole(line, 1, 0, INT64_C(1000000000), &port->gates.guard_ns);
}

static bool read_gate(const struct line *line, struct scheduler_settings *port)
{
	int64_t open;
	struct gate_list *gates = &port->gates;

	if (gates->cycle_ns == 0)
		return wrong(line, "a line `gates BASE CYCLE` comes before the first gate");
	if (gates->count == MOST_ENTRIES)
		return wrong(line, "a gate list has at most %d entries", MOST_ENTRIES);
	if (!whole(line, 1, 0, 255, &open))
		return false;
	gates->entries[gates->count].open = (uint8_t)open;
	return whole(line, 2, 1, INT64_C(1000000000000), &gates->entries[gates->count++].interval_ns);
}

static bool read_gates(const struct line *line, struct scheduler_settings *port)
{
	port->gates.count = 0;
	return whole(line, 1, 0, INT64_MAX, &port->gates.base_ns) &&
		   whole(line, 2, 1, INT64_C(1000000000000), &port->gates.cycle_ns);
}

static bool read_shape(const struct line *line, struct scheduler_settings *port)
{
	int64_t number;

	if (!whole(line, 1, 0, CLASSES - 1, &number))
		return false;
	struct shaper *shaper = &port->shapers[number];
	if (!scaled(line, 2, 1e3, &shaper->idle_kbps))
		return false;
	shaper->send_kbps = 0;
	shaper->hi_credit = NO_LIMIT;
	shaper->lo_credit = -NO_LIMIT;
	/* Credit is counted in 10^-9 bits. */
	return (line->count < 4 || scaled(line, 3, 1e3, &shaper->send_kbps)) &&
		   (line->count < 5 || scaled(line, 4, 1e9, &shaper->hi_credit)) &&
		   (line->count < 6 || scaled(line, 5, 1e9, &shaper->lo_credit));
}

static bool read_scheduled(const struct line *line, struct scheduler_settings *port)
{
	port->scheduled = 0;
	for (int place = 1; place < line->count; place++) {
		int64_t number;
		if (!whole(line, place, 0, CLASSES - 1, &number))
			return false;
		port->scheduled |= (uint8_t)(1 << number);
	}
	return true;
}

static bool read_rate(const struct line *line, struct scheduler_settings *port)
{
	return scaled(line, 1, 1e3, &port->rate_kbps);
}

static bool read_queue_bytes(const struct line *line, struct scheduler_settings *port)
{
	return whole(line, 1, LEAST_FRAME_BYTES, INT64_C(1) << 30, &port->queue_bytes);
}

static bool read_longest(const struct line *line, struct scheduler_settings *port)
{
	return whole(line, 1, LEAST_FRAME_BYTES, 65535, &port->longest_bytes);
}

static bool read_ahead(const struct line *line, struct scheduler_settings *port)
{
	if (!scaled(line, 1, 1e6, &port->ahead_ps))
		return false;
	return port->ahead_ps >= 0 || wrong(line, "ahead_us is at least 0");
}

static const struct {
	const char *key;
	int low, high;
	bool (*read)(const struct line *, struct scheduler_settings *);
} PORT_KEYS[] = {
	{"rate_mbps", 1, 1, read_rate},       {"queue_bytes", 1, 1, read_queue_bytes},
	{"longest_bytes", 1, 1, read_longest}, {"ahead_us", 1, 1, read_ahead},
	{"selection", 1, 1, read_selection},  {"scheduled", 0, CLASSES, read_scheduled},
	{"gates", 2, 2, read_gates},          {"guard", 1, 1, read_guard},
	{"gate", 2, 2, read_gate},            {"shape", 2, 5, read_shape},
};

/* --- keys of the bridge -------------------------------------------------------------------- */

static bool read_name(const struct line *line, int place, char *name)
{
	if (strlen(line->fields[place]) >= NAME_BYTES)
		return wrong(line, "%s is too long for the name of a device", line->fields[place]);
	strcpy(name, line->fields[place]);
	return true;
}

static bool read_port(const struct line *line, struct bridge_settings *settings)
{
	if (settings->port_count == MOST_PORTS)
		return wrong(line, "there are at most %d ports", MOST_PORTS);
	for (int number = 0; number < settings->port_count; number++)
		if (!strcmp(settings->ports[number].name, line->fields[1]))
			return wrong(line, "port %s occurs twice", line->fields[1]);
	settings->ports[settings->port_count].scheduler = settings->common;
	return read_name(line, 1, settings->ports[settings->port_count++].name);
}

static bool read_class(const struct line *line, struct bridge_settings *settings)
{
	int64_t vlan = ANY_VLAN, pcp, class;

	if (settings->rule_count == MOST_CLASS_RULES)
		return wrong(line, "there are at most %d rules for classes", MOST_CLASS_RULES);
	if ((strcmp(line->fields[1], "*") && !whole(line, 1, 0, 4094, &vlan)) ||
		!whole(line, 2, 0, 7, &pcp) || !whole(line, 3, 0, CLASSES - 1, &class))
		return false;
	settings->rules[settings->rule_count++] =
		(struct class_rule){(uint16_t)vlan, (uint8_t)pcp, (uint8_t)class};
	return true;
}

static bool read_address(const struct line *line, struct bridge_settings *settings)
{
	if (settings->static_count == MOST_STATIC)
		return wrong(line, "there are at most %d static addresses", MOST_STATIC);
	struct static_address *address = &settings->statics[settings->static_count];
	uint8_t *mac = address->mac;
	int64_t vlan, used = 0;
	int length = 0;

	used = sscanf(line->fields[1], "%2hhx:%2hhx:%2hhx:%2hhx:%2hhx:%2hhx%n", mac, mac + 1, mac + 2,
				  mac + 3, mac + 4, mac + 5, &length);
	if (used != 6 || line->fields[1][length])
		return wrong(line, "%s is not a MAC address", line->fields[1]);
	if (!whole(line, 2, 0, 4094, &vlan) || !read_name(line, 3, address->port))
		return false;
	address->vlan = (uint16_t)vlan;
	settings->static_count++;
	return true;
}

static bool read_receivers(const struct line *line, struct bridge_settings *settings)
{
	settings->receiver_each = !strcmp(line->fields[1], "each");
	if (!settings->receiver_each && strcmp(line->fields[1], "one"))
		return wrong(line, "receivers is one or each, not %s", line->fields[1]);
	return true;
}

static bool read_realtime(const struct line *line, struct bridge_settings *settings)
{
	settings->realtime = !strcmp(line->fields[1], "yes");
	if (!settings->realtime && strcmp(line->fields[1], "no"))
		return wrong(line, "realtime is yes or no, not %s", line->fields[1]);
	return true;
}

static bool read_ageing(const struct line *line, struct bridge_settings *settings)
{
	return whole(line, 1, 1, 1000000, &settings->ageing_s);
}

static bool read_burst(const struct line *line, struct bridge_settings *settings)
{
	return whole(line, 1, 1, 256, &settings->burst);
}

static bool read_sleep(const struct line *line, struct bridge_settings *settings)
{
	return whole(line, 1, 0, 1000000, &settings->sleep_us);
}

static bool read_threads(const struct line *line, struct bridge_settings *settings)
{
	return whole(line, 1, 0, 2, &settings->threads);
}

static const struct {
	const char *key;
	int count;
	bool (*read)(const struct line *, struct bridge_settings *);
} BRIDGE_KEYS[] = {
	{"port", 1, read_port},       {"class", 3, read_class},
	{"address", 3, read_address}, {"receivers", 1, read_receivers},
	{"ageing_s", 1, read_ageing}, {"burst", 1, read_burst},
	{"sleep_us", 1, read_sleep},  {"threads", 1, read_threads},
	{"realtime", 1, read_realtime},
};

/* --- the whole text ------------------------------------------------------------------------ */

static bool read_line(const struct line *line, struct bridge_settings *settings)
{
	int last = settings->port_count - 1;
	struct scheduler_settings *port = last < 0 ? &settings->common : &settings->ports[last].scheduler;

	for (size_t number = 0; number < sizeof PORT_KEYS / sizeof *PORT_KEYS; number++)
		if (!strcmp(line->fields[0], PORT_KEYS[number].key))
			return has_fields(line, PORT_KEYS[number].low, PORT_KEYS[number].high) &&
				   PORT_KEYS[number].read(line, port);
	for (size_t number = 0; number < sizeof BRIDGE_KEYS / sizeof *BRIDGE_KEYS; number++)
		if (!strcmp(line->fields[0], BRIDGE_KEYS[number].key))
			return has_fields(line, BRIDGE_KEYS[number].count, BRIDGE_KEYS[number].count) &&
				   BRIDGE_KEYS[number].read(line, settings);
	return wrong(line, "unknown setting %s", line->fields[0]);
}

static bool split(char *text, struct line *line)
{
	char *rest = NULL;

	text[strcspn(text, "#\n")] = 0;
	line->count = 0;
	for (char *word = strtok_r(text, " \t\r", &rest); word; word = strtok_r(NULL, " \t\r", &rest)) {
		if (line->count == MOST_FIELDS)
			return wrong(line, "more than %d fields", MOST_FIELDS);
		line->fields[line->count++] = word;
	}
	return true;
}

/* Derive the send slopes that were not given, when the rate is known. */
static void set_send_slopes(struct scheduler_settings *port)
{
	for (int number = 0; number < CLASSES; number++) {
		struct shaper *shaper = &port->shapers[number];
		if (shaper->idle_kbps && !shaper->send_kbps)
			shaper->send_kbps = shaper->idle_kbps - port->rate_kbps;
	}
}

static bool check(const struct bridge_settings *settings, char *problem, size_t room)
{
	const char *found = scheduler_problem(&settings->common);

	if (!found && settings->realtime && settings->sleep_us == 0)
		found = "realtime needs a sleep_us above 0, or no other program gets a processor";
	if (found) {
		snprintf(problem, room, "%s", found);
		return false;
	}
	for (int number = 0; number < settings->port_count; number++) {
		found = scheduler_problem(&settings->ports[number].scheduler);
		if (found) {
			snprintf(problem, room, "port %s: %s", settings->ports[number].name, found);
			return false;
		}
	}
	return true;
}

bool settings_read(FILE *file, struct bridge_settings *settings, char *problem, size_t room)
{
	char text[LINE_BYTES];
	struct line line = {.problem = problem, .room = room};

	memset(settings, 0, sizeof *settings);
	scheduler_defaults(&settings->common);
	settings->ageing_s = 300;
	settings->burst = 32;
	settings->sleep_us = 50;
	settings->threads = 1;
	while (fgets(text, sizeof text, file)) {
		line.number++;
		if (strlen(text) == sizeof text - 1)
			return wrong(&line, "longer than %d characters", LINE_BYTES - 2);
		if (!split(text, &line) || (line.count > 0 && !read_line(&line, settings)))
			return false;
	}
	set_send_slopes(&settings->common);
	for (int number = 0; number < settings->port_count; number++)
		set_send_slopes(&settings->ports[number].scheduler);
	return check(settings, problem, room);
}

void settings_load(const char *path, struct bridge_settings *settings)
{
	char problem[256];
	FILE *file = fopen(path, "r");

	if (!file)
		die("cannot read %s", path);
	if (!settings_read(file, settings, problem, sizeof problem))
		die("%s: %s", path, problem);
	fclose(file);
}

const struct scheduler_settings *settings_of_port(const struct bridge_settings *settings,
												  const char *name)
{
	for (int number = 0; number < settings->port_count; number++)
		if (!strcmp(settings->ports[number].name, name))
			return &settings->ports[number].scheduler;
	return &settings->common;
}

int settings_class(const struct bridge_settings *settings, uint16_t vlan, uint8_t pcp)
{
	for (int number = 0; number < settings->rule_count; number++) {
		const struct class_rule *rule = &settings->rules[number];
		if ((rule->vlan == vlan || rule->vlan == ANY_VLAN) && rule->pcp == pcp)
			return rule->class;
	}
	return pcp;
}
