/* SPDX-License-Identifier: MIT
 *
 * The bridge's local socket: counters, addresses, new settings of its ports. Its name is abstract, so
 * that nothing of it remains however the bridge ends, and belongs to the network namespace. Only the
 * bridge's own user and root are served.
 */
#include "state.h"

#include <poll.h>
#include <rte_ethdev.h>
#include <stddef.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <linux/if_packet.h>

enum { REQUEST_BYTES = 65536, REQUEST_MS = 1000, TRIES = 400, TRY_US = 5000 };

static int listening = -1;

static socklen_t abstract(struct sockaddr_un *address, const char *name)
{
	*address = (struct sockaddr_un){.sun_family = AF_UNIX};
	snprintf(address->sun_path + 1, sizeof address->sun_path - 1, "%s", name);
	return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + strlen(address->sun_path + 1));
}

bool control_open(const char *name)
{
	struct sockaddr_un address;
	socklen_t length = abstract(&address, name);

	listening = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	return listening >= 0 && bind(listening, (struct sockaddr *)&address, length) == 0 &&
		   listen(listening, 4) == 0;
}

/* --- answers ------------------------------------------------------------------------------- */

/* Reading resets the kernel's count. */
static void read_kernel_drops(struct port *port)
{
	struct tpacket_stats read;
	socklen_t length = sizeof read;

	if (getsockopt(port->socket, SOL_PACKET, PACKET_STATISTICS, &read, &length) == 0)
		port->kernel_dropped += read.tp_drops;
}

static void print_queues(FILE *file, const struct port *port)
{
	for (int number = 0; number < QUEUES; number++) {
		const struct queue *queue = &port->scheduler.queues[number];
		fprintf(file,
				"%s{\"queue\": %d, \"arrived\": %" PRIu64 ", \"dropped\": %" PRIu64
				", \"sent\": %" PRIu64 ", \"waiting\": %" PRIu32 ", \"peak_bytes\": %" PRId64
				", \"outside\": %" PRIu64 "}",
				number ? ", " : "", number, queue->arrived, queue->dropped, queue->sent,
				scheduler_waiting(&port->scheduler, number), queue->peak_bytes,
				number < CLASSES ? port->transmitted.outside[number] : 0);
	}
}

static void print_port(FILE *file, struct port *port)
{
	const struct received *in = &port->received;
	const struct transmitted *out = &port->transmitted;

	read_kernel_drops(port);
	fprintf(file, "{\"port\": \"%s\", \"up\": %s, ", port->name,
			atomic_load(&port->up) ? "true" : "false");
	fprintf(file,
			"\"kernel_dropped\": %" PRIu64 ", \"received\": %" PRIu64 ", \"received_bytes\": %" PRIu64
			", \"ptp\": %" PRIu64 ", \"runt\": %" PRIu64 ", \"oversized\": %" PRIu64
			", \"bad_source\": %" PRIu64 ", \"reserved\": %" PRIu64 ", \"unswitched\": %" PRIu64
			", \"flooded\": %" PRIu64 ", \"extra_copies\": %" PRIu64 ", ",
			port->kernel_dropped, in->frames, in->bytes, in->ptp, in->runt, in->oversized,
			in->bad_source, in->reserved, in->unswitched, in->flooded, in->extra_copies);
	fprintf(file,
			"\"handoff_full\": %" PRIu64 ", \"handoff_waiting\": %u, \"port_down\": %" PRIu64
			", \"refused\": %" PRIu64 ", \"sent_bytes\": %" PRIu64 ", \"queues\": [",
			(uint64_t)atomic_load(&port->handoff_full), rte_ring_count(port->handoff),
			out->port_down, out->refused, out->bytes);
	print_queues(file, port);
	fputs("]}", file);
}

void print_counters(FILE *file, struct bridge *bridge)
{
	fprintf(file, "{\"table_full\": %" PRIu64 ", \"ports\": [", table_full());
	for (int number = 0; number < bridge->port_count; number++) {
		if (number)
			fputs(", ", file);
		print_port(file, &bridge->ports[number]);
	}
	fputs("]}\n", file);
	fflush(file);
}

/* Give every port a scheduler of new settings, for the sending thread to apply. */
static void change_settings(struct bridge *bridge, char *text, FILE *answer)
{
	static struct bridge_settings settings;
	char problem[256] = "the settings cannot be read";
	FILE *file = fmemopen(text, strlen(text) + 1, "r");
	bool good = file && settings_read(file, &settings, problem, sizeof problem);

	if (file)
		fclose(file);
	if (!good) {
		fprintf(answer, "{\"error\": \"%s\"}\n", problem);
		return;
	}
	for (int number = 0; number < bridge->port_count; number++) {
		struct port *port = &bridge->ports[number];
		struct scheduler *next = malloc(sizeof *next);
		if (!next || !scheduler_open(next, settings_of_port(&settings, port->name),
									 bridge->epoch_ns)) {
			free(next);
			fputs("{\"error\": \"no memory\"}\n", answer);
			return;
		}
		struct scheduler *missed = atomic_exchange(&port->next_scheduler, next);
		if (missed) {
			scheduler_close(missed);
			free(missed);
		}
	}
	fputs("{}\n", answer);
}

static void answer_request(struct bridge *bridge, char *request, FILE *answer)
{
	static const char settings[] = "settings\n";

	if (!strcmp(request, "counters\n"))
		print_counters(answer, bridge);
	else if (!strcmp(request, "addresses\n"))
		table_print(answer, bridge, now_s());
	else if (!strncmp(request, settings, sizeof settings - 1))
		change_settings(bridge, request + sizeof settings - 1, answer);
	else
		fputs("{\"error\": \"the queries are counters, addresses and settings\"}\n", answer);
}

/* --- the socket ---------------------------------------------------------------------------- */

static bool is_trusted(int client)
{
	struct ucred peer;
	socklen_t length = sizeof peer;

	return getsockopt(client, SOL_SOCKET, SO_PEERCRED, &peer, &length) == 0 &&
		   (peer.uid == 0 || peer.uid == geteuid());
}

/* Read a whole request: the client shuts its side down after it. */
static bool read_request(int client, char *request)
{
	size_t used = 0;

	while (used < REQUEST_BYTES - 1) {
		struct pollfd ready = {.fd = client, .events = POLLIN};
		if (poll(&ready, 1, REQUEST_MS) <= 0)
			return false;
		ssize_t count = read(client, request + used, REQUEST_BYTES - 1 - used);
		if (count < 0)
			return false;
		if (count == 0) {
			request[used] = 0;
			return true;
		}
		used += (size_t)count;
	}
	return false;
}

static void send_whole(int client, const char *text, size_t bytes)
{
	while (bytes > 0) {
		ssize_t sent = send(client, text, bytes, MSG_NOSIGNAL);
		if (sent <= 0)
			return;
		text += sent;
		bytes -= (size_t)sent;
	}
}

void control_serve(struct bridge *bridge, int timeout_ms)
{
	static char request[REQUEST_BYTES];
	struct pollfd ready = {.fd = listening, .events = POLLIN};

	if (poll(&ready, 1, timeout_ms) <= 0)
		return;
	int client = accept4(listening, NULL, NULL, SOCK_CLOEXEC);
	if (client < 0)
		return;
	if (is_trusted(client) && read_request(client, request)) {
		char *text = NULL;
		size_t bytes = 0;
		FILE *answer = open_memstream(&text, &bytes);
		if (answer) {
			answer_request(bridge, request, answer);
			fclose(answer);
			send_whole(client, text, bytes);
			free(text);
		}
	}
	close(client);
}

/* --- the client ---------------------------------------------------------------------------- */

static bool send_request(int server, const char *request, const char *path)
{
	char content[4096];
	size_t bytes;

	send_whole(server, request, strlen(request));
	send_whole(server, "\n", 1);
	if (path) {
		FILE *file = fopen(path, "r");
		if (!file)
			return false;
		while ((bytes = fread(content, 1, sizeof content, file)) > 0)
			send_whole(server, content, bytes);
		fclose(file);
	}
	return shutdown(server, SHUT_WR) == 0;
}

/* A bridge that is being started takes a moment and answers once it forwards frames. */
static int connect_patiently(const char *name)
{
	struct sockaddr_un address;
	socklen_t length = abstract(&address, name);
	int server = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	for (int tries = 0; server >= 0 && tries < TRIES; tries++, usleep(TRY_US))
		if (connect(server, (struct sockaddr *)&address, length) == 0)
			return server;
	return -1;
}

int control_query(const char *name, const char *request, const char *path)
{
	int server = connect_patiently(name);
	char answer[4096];
	ssize_t bytes;
	bool failed = false, any = false;

	if (server < 0)
		die("no bridge named %s answers in this network namespace", name);
	if (!send_request(server, request, path))
		die("cannot read %s", path);
	while ((bytes = read(server, answer, sizeof answer)) > 0) {
		failed |= !any && bytes > 9 && !memcmp(answer, "{\"error\":", 9);
		any = true;
		fwrite(answer, 1, (size_t)bytes, stdout);
	}
	close(server);
	return failed || !any;
}
