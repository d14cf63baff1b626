/* SPDX-License-Identifier: MIT
 *
 * stallmeter: how long, and how often, each processor kept an ordinary program from running; see
 * stallmeter(1).
 */
#include <getopt.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <sys/prctl.h>

#include "stream.h"

/* The longest stalls of a processor are kept with their times. */
#define KEPT 64
#define SHORTEST_PERIOD_NS 250000ULL
#define LONGEST_PERIOD_NS 8000000ULL
#define FIRST_PERIOD_NS 1000000ULL
/* Checks between two measurements of their cost. */
#define CHECKS_PER_MEASUREMENT 16

struct stall {
	uint64_t due_ns, late_ns;
};

struct processor {
	int number;
	pthread_t thread;
	uint64_t period_ns, used_ns, chance;
	uint64_t checks, stalls, stalled_ns, longest_ns;
	struct stall kept[KEPT];
	size_t used;
};

static uint64_t threshold_ns = 500000, budget_ppm = 8000, seconds_ns;
static atomic_bool ending;
static pthread_barrier_t all_run;

/* Keep a stall, in place of the shortest one if there is no room. */
static void keep(struct processor *processor, uint64_t due, uint64_t late)
{
	size_t place = processor->used;

	if (place < KEPT) {
		processor->used++;
	} else {
		place = 0;
		for (size_t i = 1; i < KEPT; i++)
			if (processor->kept[i].late_ns < processor->kept[place].late_ns)
				place = i;
		if (processor->kept[place].late_ns >= late)
			return;
	}
	processor->kept[place] = (struct stall){ due, late };
}

static void check(struct processor *processor, uint64_t due, uint64_t now)
{
	uint64_t late = now - due;

	processor->checks++;
	if (late > processor->longest_ns)
		processor->longest_ns = late;
	if (late < threshold_ns)
		return;
	processor->stalls++;
	processor->stalled_ns += late;
	keep(processor, due, late);
}

/* Set the period by the cost of all checks so far, so that expensive ones are compensated. */
static void keep_to_budget(struct processor *processor)
{
	uint64_t cost, period;

	if (!processor->checks) /* ended before the first */
		return;
	processor->used_ns = clock_ns(CLOCK_THREAD_CPUTIME_ID);
	cost = processor->used_ns / processor->checks;
	period = cost * 1000000 / budget_ppm;
	if (period < SHORTEST_PERIOD_NS)
		period = SHORTEST_PERIOD_NS;
	processor->period_ns = period > LONGEST_PERIOD_NS ? LONGEST_PERIOD_NS : period;
}

/* The period, a quarter more or less (xorshift64 of Marsaglia, 2003). */
static uint64_t next_period(struct processor *processor)
{
	uint64_t x = processor->chance, half = processor->period_ns / 2;

	x ^= x << 13;
	x ^= x >> 7;
	x ^= x << 17;
	processor->chance = x;
	return processor->period_ns - half / 2 + x % half;
}

static void *watch(void *argument)
{
	struct processor *processor = argument;
	cpu_set_t one;
	uint64_t due, now;

	CPU_ZERO(&one);
	CPU_SET(processor->number, &one);
	if (pthread_setaffinity_np(pthread_self(), sizeof(one), &one))
		die("no thread can be bound to processor %d", processor->number);
	prctl(PR_SET_TIMERSLACK, 1UL);
	pthread_barrier_wait(&all_run);
	due = clock_ns(CLOCK_MONOTONIC) + processor->period_ns;
	while (!atomic_load_explicit(&ending, memory_order_relaxed)) {
		struct timespec time = to_timespec(due);
		clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &time, NULL);
		now = clock_ns(CLOCK_MONOTONIC);
		check(processor, due, now);
		if (processor->checks % CHECKS_PER_MEASUREMENT == 0)
			keep_to_budget(processor);
		due = now + next_period(processor);
	}
	keep_to_budget(processor);
	return NULL;
}

static void print_processor(const struct processor *processor, int64_t ahead)
{
	printf("{\"processor\": %d, \"checks\": %" PRIu64 ", \"used_ns\": %" PRIu64
	       ", \"stalls\": %" PRIu64 ", \"stalled_ns\": %" PRIu64 ", \"longest_ns\": %" PRIu64
	       ", \"kept\": [",
	       processor->number, processor->checks, processor->used_ns, processor->stalls,
	       processor->stalled_ns, processor->longest_ns);
	for (size_t i = 0; i < processor->used; i++)
		printf("%s[%" PRIu64 ", %" PRIu64 "]", i ? ", " : "",
		       processor->kept[i].due_ns + (uint64_t)ahead, processor->kept[i].late_ns);
	printf("]}");
}

static void print_report(const struct processor *processors, size_t count, uint64_t began)
{
	uint64_t now = clock_ns(CLOCK_MONOTONIC);
	int64_t ahead = ahead_of_monotonic(CLOCK_TAI);

	printf("{\"tool\": \"stallmeter\", \"threshold_ns\": %" PRIu64
	       ", \"seconds\": %.6f, \"processors\": [",
	       threshold_ns, (double)(now - began) / SECOND_NS);
	for (size_t i = 0; i < count; i++) {
		if (i)
			printf(", ");
		print_processor(&processors[i], ahead);
	}
	printf("]}\n");
}

/* Start a thread on every processor that this program may run on. */
static size_t watch_all(struct processor *processors)
{
	cpu_set_t allowed;
	size_t count = 0;

	if (sched_getaffinity(0, sizeof(allowed), &allowed))
		die("cannot read the allowed processors: %s", strerror(errno));
	for (int number = 0; number < CPU_SETSIZE; number++)
		if (CPU_ISSET(number, &allowed))
			processors[count++] = (struct processor){
				.number = number,
				.period_ns = FIRST_PERIOD_NS,
				.chance = 0x9e3779b97f4a7c15ULL * (uint64_t)(number + 1),
			};
	pthread_barrier_init(&all_run, NULL, (unsigned)count + 1);
	for (size_t i = 0; i < count; i++)
		if (pthread_create(&processors[i].thread, NULL, watch, &processors[i]))
			die("no thread for processor %d", processors[i].number);
	pthread_barrier_wait(&all_run);
	return count;
}

static void wait_for_the_end(const sigset_t *signals)
{
	struct timespec most = to_timespec(seconds_ns);

	while ((seconds_ns ? sigtimedwait(signals, NULL, &most) : sigwaitinfo(signals, NULL)) < 0 &&
	       errno == EINTR)
		;
	atomic_store(&ending, true);
}

enum { THRESHOLD, BUDGET, SECONDS };

static const struct known_option known[] = {
	[THRESHOLD] = {"threshold-us", "US",
		       "lateness that counts as a stall, 1 to 10000000 us (default: 500)"},
	[BUDGET] = {"budget-ppm", "N",
		    "share of each processor that the meter may use, 100 to 1000000 millionths "
		    "(default: 8000)"},
	[SECONDS] = {"seconds", "S", "stop after S seconds (default: no limit)"},
	{NULL, NULL, NULL},
};

static const struct help help = {
	.purpose = "Measure how long, and how often, each processor kept an ordinary program from running.\n"
		   "Prints 'ready', and a report as JSON after --seconds or by SIGTERM or SIGINT. See\n"
		   "stallmeter(1).",
	.usage = "  stallmeter [OPTION]...",
	.groups = {{"Options", known}},
	.example = "  stallmeter --seconds 10 --threshold-us 200",
};

static void apply_option(int option)
{
	switch (option) {
	case THRESHOLD: threshold_ns = number(optarg, "--threshold-us", 1, 10000000) * 1000; break;
	case BUDGET: budget_ppm = number(optarg, "--budget-ppm", 100, 1000000); break;
	case SECONDS: seconds_ns = seconds(optarg, "--seconds"); break;
	}
}

int main(int argc, char **argv)
{
	static struct processor processors[CPU_SETSIZE];
	sigset_t signals;
	int option;

	while ((option = next_option(argc, argv, known, &help, 0)) != -1)
		apply_option(option);
	sigemptyset(&signals);
	sigaddset(&signals, SIGTERM);
	sigaddset(&signals, SIGINT);
	sigprocmask(SIG_BLOCK, &signals, NULL);
	size_t count = watch_all(processors);
	uint64_t began = clock_ns(CLOCK_MONOTONIC);
	puts("ready");
	fflush(stdout);
	wait_for_the_end(&signals);
	for (size_t i = 0; i < count; i++)
		pthread_join(processors[i].thread, NULL);
	print_report(processors, count, began);
	return fflush(stdout) ? 1 : 0;
}
