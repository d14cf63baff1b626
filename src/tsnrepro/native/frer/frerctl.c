/* SPDX-License-Identifier: MIT
 *
 * frerctl: the control program of the FRER switch, listener and station; see frerctl(8).
 *
 * Nothing is pinned: the eBPF programs hang on their ports and go with them, and what runs is
 * found again by the programs on its port.
 */
#include <bpf/libbpf.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "frerctl_commands.h"
#include "frerctl_options.h"

/* libbpf also warns about what is no failure here (a clsact that is already there), so its last
 * warning is shown only if the program fails. */
static char last_warning[4096];

static int keep_warning(enum libbpf_print_level level, const char *format, va_list arguments)
{
	if (level == LIBBPF_WARN)
		vsnprintf(last_warning, sizeof(last_warning), format, arguments);
	return 0;
}

static void show_warning(int status, void *unused)
{
	(void)unused;
	if (status && *last_warning)
		fprintf(stderr, "libbpf: %s", last_warning);
}

static const struct {
	const char *name;
	void (*run)(int argc, char **argv);
	bool needs_port;
} commands[] = {
	{"switch", command_switch, true},	{"station", command_station, true},
	{"listener", command_listener, true},	{"set", command_set, true},
	{"streams", command_streams, true},	{"reset", command_reset, true},
	{"restart", command_restart, true},	{"counters", command_counters, true},
	{"latent", command_latent, true},	{"fault", command_fault, true},
	{"generator", command_generator, true}, {"drops", command_drops, false},
};

int main(int argc, char **argv)
{
	libbpf_set_print(keep_warning);
	on_exit(show_warning, NULL);
	for (size_t i = 0; argc > 1 && i < sizeof(commands) / sizeof(*commands); i++) {
		if (strcmp(commands[i].name, argv[1]))
			continue;
		if (commands[i].needs_port && (argc < 3 || *argv[2] == '-')) {
			no_options(argc - 1, argv + 1);
			die("%s needs a port; see frerctl --help", argv[1]);
		}
		commands[i].run(argc - 1 - commands[i].needs_port,
				argv + 1 + commands[i].needs_port);
		return 0;
	}
	if (argc > 1 && *argv[1] != '-')
		die("unknown command '%s'; see frerctl --help", argv[1]);
	no_options(argc, argv);
	die("a command is needed; see frerctl --help");
}
