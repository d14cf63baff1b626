/* SPDX-License-Identifier: MIT
 *
 * See program.h.
 */
#include "program.h"

#include <errno.h>
#include <getopt.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#ifndef VERSION
#define VERSION "of unknown version"
#endif

enum { MOST_OPTIONS = 48, TEXT_COLUMN = 27, COLUMNS = 80, HELP = MOST_OPTIONS, SHOW_VERSION };

static const struct known_option common[] = {
	{"help", NULL, "print this help and exit"},
	{"version", NULL, "print the version and exit"},
	{NULL, NULL, NULL},
};

void die(const char *format, ...)
{
	va_list arguments;

	fprintf(stderr, "%s: ", program_invocation_short_name);
	va_start(arguments, format);
	vfprintf(stderr, format, arguments);
	va_end(arguments);
	fputc('\n', stderr);
	exit(1);
}

/* --- --help ------------------------------------------------------------------------------ */

/* Print a text, broken between words so that it stays in its column. */
static void print_column(const char *text)
{
	int column = TEXT_COLUMN;

	while (*text) {
		int length = (int)strcspn(text, " ");
		if (column > TEXT_COLUMN && column + 1 + length > COLUMNS) {
			printf("\n%*s", TEXT_COLUMN, "");
			column = TEXT_COLUMN;
		} else if (column > TEXT_COLUMN) {
			column += putchar(' ') == ' ';
		}
		column += printf("%.*s", length, text);
		text += length;
		text += strspn(text, " ");
	}
	putchar('\n');
}

static void print_options(const struct known_option *options)
{
	for (; options->name; options++) {
		int width = printf("  --%s%s%s", options->name, options->value ? " " : "",
				   options->value ? options->value : "");
		if (width >= TEXT_COLUMN - 1)
			printf("\n%*s", TEXT_COLUMN, "");
		else
			printf("%*s", TEXT_COLUMN - width, "");
		print_column(options->text);
	}
}

static void print_help(const struct help *help)
{
	printf("%s\n\nUsage:\n%s\n", help->purpose, help->usage);
	for (int group = 0; group < MOST_OPTION_GROUPS && help->groups[group].title; group++) {
		printf("\n%s:\n", help->groups[group].title);
		print_options(help->groups[group].options);
	}
	puts(help->groups[0].title ? "\nOther options:" : "\nOptions:");
	print_options(common);
	printf("\nExample:\n%s\n\nExit status: 0, or 1 after an error, which is on standard error.\n",
	       help->example);
}

/* --- parsing ----------------------------------------------------------------------------- */

int next_option(int argc, char **argv, const struct known_option *known, const struct help *help,
		int operands)
{
	struct option options[MOST_OPTIONS + 3] = {0};
	int count = 0;

	for (; known[count].name; count++)
		options[count] = (struct option){
			known[count].name,
			known[count].value ? required_argument : no_argument,
			NULL,
			count,
		};
	options[count++] = (struct option){"help", no_argument, NULL, HELP};
	options[count] = (struct option){"version", no_argument, NULL, SHOW_VERSION};
	opterr = 0;
	int found = getopt_long(argc, argv, ":", options, NULL);
	switch (found) {
	case HELP:
		print_help(help);
		exit(0);
	case SHOW_VERSION:
		printf("%s %s\n", program_invocation_short_name, VERSION);
		exit(0);
	case '?':
		die("unknown option '%s'; see %s --help", argv[optind - 1],
		    program_invocation_short_name);
	case ':':
		die("%s needs a value; see %s --help", argv[optind - 1],
		    program_invocation_short_name);
	case -1:
		if (argc - optind > operands)
			die("unexpected argument '%s'; see %s --help", argv[optind + operands],
			    program_invocation_short_name);
	}
	return found;
}

uint64_t number(const char *text, const char *what, uint64_t low, uint64_t high)
{
	char *end;

	errno = 0;
	uint64_t value = strtoull(text, &end, 10);
	if (errno || end == text || *end || *text == '-' || value < low || value > high)
		die("%s takes a whole number from %" PRIu64 " to %" PRIu64 ", not '%s'", what, low, high,
		    text);
	return value;
}

uint64_t seconds(const char *text, const char *what)
{
	char *end;
	double value = strtod(text, &end);

	if (end == text || *end || !(value > 0) || value > 1e9)
		die("%s takes a number above 0 and up to 1e9, not '%s'", what, text);
	return (uint64_t)(value * (double)SECOND_NS);
}
