/* SPDX-License-Identifier: MIT
 *
 * See settings.h.
 */
#define _GNU_SOURCE
#include "settings.h"

#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

enum { LINE_BYTES = 512, MOST_WORDS = 16 };

/* A line as words, and where to say what is wrong with it. */
struct line {
	int number, count;
	char *words[MOST_WORDS];
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
	long long read = strtoll(line->words[place], &end, 0);
	if (*end || errno || read < low || read > high)
		return wrong(line, "%s %s: a whole number from %lld to %lld is wanted", line->words[0],
					 line->words[place], (long long)low, (long long)high);
	*value = read;
	return true;
}

/* Read a number and scale it to a whole one, as megabits to kilobits. */
static bool scaled(const struct line *line, int place, double scale, int64_t *value)
{
	char *end;
	double read = strtod(line->words[place], &end);

	if (*end || !isfinite(read) || fabs(read * scale) > 9e18)
		return wrong(line, "%s %s: a number is wanted", line->words[0], line->words[place]);
	*value = llround(read * scale);
	return true;
}

static bool has_words(const struct line *line, int low, int high)
{
	if (line->count - 1 < low || line->count - 1 > high)
		return wrong(line, "%s takes %d to %d values, not %d", line->words[0], low, high,
					 line->count - 1);
	return true;
}

/* --- words of a port ----------------------------------------------------------------------- */

static bool read_selection(const struct line *line, struct scheduler_settings *port)
{
	if (!strcmp(line->words[1], "standard"))
		port->selection = SELECT_STANDARD;
	else if (!strcmp(line->words[1], "by-kind"))
		port->selection = SELECT_BY_KIND;
	else
		return wrong(line, "selection is standard or by-kind, not %s", line->words[1]);
	return true;
}

static bool read_guard(const struct line *line, struct scheduler_settings *port)
{
	static const char *const names[] = {"frame", "longest", "none"};
	static const enum guard guards[] = {GUARD_FRAME, GUARD_LONGEST, GUARD_NONE};

	for (int number = 0; number < 3; number++)
		if (!strcmp(line->words[1], names[number])) {
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
	const char *word;
	int low, high;
	bool (*read)(const struct line *, struct scheduler_settings *);
} PORT_WORDS[] = {
	{"rate_mbps", 1, 1, read_rate},       {"queue_bytes", 1, 1, read_queue_bytes},
	{"longest_bytes", 1, 1, read_longest}, {"ahead_us", 1, 1, read_ahead},
	{"selection", 1, 1, read_selection},  {"scheduled", 0, CLASSES, read_scheduled},
	{"gates", 2, 2, read_gates},          {"guard", 1, 1, read_guard},
	{"gate", 2, 2, read_gate},            {"shape", 2, 5, read_shape},
};

/* --- words of the bridge ------------------------------------------------------------------- */

static bool read_name(const struct line *line, int place, char *name)
{
	if (strlen(line->words[place]) >= NAME_BYTES)
		return wrong(line, "%s is longer than a device's name may be", line->words[place]);
	strcpy(name, line->words[place]);
	return true;
}

static bool read_port(const struct line *line, struct bridge_settings *settings)
{
	if (settings->port_count == MOST_PORTS)
		return wrong(line, "there are at most %d ports", MOST_PORTS);
	for (int number = 0; number < settings->port_count; number++)
		if (!strcmp(settings->ports[number].name, line->words[1]))
			return wrong(line, "port %s occurs twice", line->words[1]);
	settings->ports[settings->port_count].scheduler = settings->common;
	return read_name(line, 1, settings->ports[settings->port_count++].name);
}

static bool read_class(const struct line *line, struct bridge_settings *settings)
{
	int64_t vlan = ANY_VLAN, pcp, class;

	if (settings->rule_count == MOST_CLASS_RULES)
		return wrong(line, "there are at most %d rules for classes", MOST_CLASS_RULES);
	if ((strcmp(line->words[1], "*") && !whole(line, 1, 0, 4094, &vlan)) ||
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

	used = sscanf(line->words[1], "%2hhx:%2hhx:%2hhx:%2hhx:%2hhx:%2hhx%n", mac, mac + 1, mac + 2,
				  mac + 3, mac + 4, mac + 5, &length);
	if (used != 6 || line->words[1][length])
		return wrong(line, "%s is no MAC address", line->words[1]);
	if (!whole(line, 2, 0, 4094, &vlan) || !read_name(line, 3, address->port))
		return false;
	address->vlan = (uint16_t)vlan;
	settings->static_count++;
	return true;
}

static bool read_receivers(const struct line *line, struct bridge_settings *settings)
{
	settings->receiver_each = !strcmp(line->words[1], "each");
	if (!settings->receiver_each && strcmp(line->words[1], "one"))
		return wrong(line, "receivers is one or each, not %s", line->words[1]);
	return true;
}

static bool read_realtime(const struct line *line, struct bridge_settings *settings)
{
	settings->realtime = !strcmp(line->words[1], "yes");
	if (!settings->realtime && strcmp(line->words[1], "no"))
		return wrong(line, "realtime is yes or no, not %s", line->words[1]);
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
	const char *word;
	int count;
	bool (*read)(const struct line *, struct bridge_settings *);
} BRIDGE_WORDS[] = {
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

	for (size_t number = 0; number < sizeof PORT_WORDS / sizeof *PORT_WORDS; number++)
		if (!strcmp(line->words[0], PORT_WORDS[number].word))
			return has_words(line, PORT_WORDS[number].low, PORT_WORDS[number].high) &&
				   PORT_WORDS[number].read(line, port);
	for (size_t number = 0; number < sizeof BRIDGE_WORDS / sizeof *BRIDGE_WORDS; number++)
		if (!strcmp(line->words[0], BRIDGE_WORDS[number].word))
			return has_words(line, BRIDGE_WORDS[number].count, BRIDGE_WORDS[number].count) &&
				   BRIDGE_WORDS[number].read(line, settings);
	return wrong(line, "there is no setting %s", line->words[0]);
}

static bool split(char *text, struct line *line)
{
	char *rest = NULL;

	text[strcspn(text, "#\n")] = 0;
	line->count = 0;
	for (char *word = strtok_r(text, " \t\r", &rest); word; word = strtok_r(NULL, " \t\r", &rest)) {
		if (line->count == MOST_WORDS)
			return wrong(line, "there are more than %d words", MOST_WORDS);
		line->words[line->count++] = word;
	}
	return true;
}

/* Reckon the send slopes that were not given; the rate may stand behind them. */
static void finish(struct scheduler_settings *port)
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
		found = "realtime needs a sleep_us above 0, or no other program gets its processor";
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
			return wrong(&line, "it is longer than %d characters", LINE_BYTES - 2);
		if (!split(text, &line) || (line.count > 0 && !read_line(&line, settings)))
			return false;
	}
	finish(&settings->common);
	for (int number = 0; number < settings->port_count; number++)
		finish(&settings->ports[number].scheduler);
	return check(settings, problem, room);
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
